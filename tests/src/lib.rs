//! Helpers of the tests that need two crates or a server.
