//! JSON: one spelling for each value.

mod arrange;
mod member;
mod number;
mod scope;
mod string;
mod transcribe;

pub(super) use transcribe::canonical;
