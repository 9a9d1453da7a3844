//! Servers that tests need: found on this machine, started for the test run, and gone with it.
//!
//! What starts here is watched by a supervisor of its own (a small shell process), which learns from a closed pipe that
//! the test process has ended, in whatever way, and then stops the server and removes its folder. A static may
//! therefore hold a server, and a test process may be killed.
//!
//! Each kind of server is a module beside [`postgres`]; what they share is in the private modules.

mod kind;
mod ports;
pub mod postgres;
mod processes;
mod programs;
mod random;
mod supervised;
mod user;
