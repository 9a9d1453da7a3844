use std::net::{Ipv4Addr, TcpListener};

use super::random::unlike_any_other;

/// Below the ranges from which systems take the ports of outgoing connections (Linux from 32768, macOS from 49152):
/// while a server is down, nobody who tries to reach it can be given its port, not even by connecting to himself.
const RANGE: core::ops::Range<u16> = 15_000..32_000;

/// A port of 127.0.0.1 that is free at this moment. Others may take it before the server does: then take another.
pub(super) fn free() -> u16 {
    let mut candidates = core::iter::repeat_with(|| {
        let width = u64::from(RANGE.end - RANGE.start);
        RANGE.start + u16::try_from(unlike_any_other() % width).expect("less than the width, which is a u16")
    });
    candidates.find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()).expect("candidates do not end")
}
