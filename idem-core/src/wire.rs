//! The versioned form in which stores keep records and answers as bytes.
//!
//! ```text
//! record   version:u8=1  state:u8  profile:u64  digest:[32]  token:[16]  epoch:u64  detail  crc:u32
//! detail   in progress, released: nothing · failed: no_effect:u8 · completed: answer
//! answer   0 not kept · 1 value:rest · 2 status:u16 headers trailers body:rest
//! headers  count:varint  then per line  name:len+bytes  value:len+bytes   (len: varint)
//! ```
//!
//! Numbers of fixed width are big-endian; varints are LEB128 in their shortest form. `crc` is CRC-32 (IEEE) over all
//! that precedes it, so that a record that lost its tail, or a bit, is unreadable instead of another answer.
//! [`Answer::to_bytes`] has the same `version … crc` frame around an answer alone, for stores with columns.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Answer, Epoch, Fingerprint, Header, ProfileId, Record, Response, State, Token, Unreadable};

/// The version that this library writes.
pub const FORMAT_VERSION: u8 = 1;

const STATE_IN_PROGRESS: u8 = 1;
const STATE_COMPLETED: u8 = 2;
const STATE_FAILED: u8 = 3;
const STATE_RELEASED: u8 = 4;

const ANSWER_NOT_KEPT: u8 = 0;
const ANSWER_VALUE: u8 = 1;
const ANSWER_RESPONSE: u8 = 2;

const CRC_BYTES: usize = 4;

impl Record {
    /// Encodes the record. Its times are not part of it; a store keeps them beside.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let answer_size = match &self.state {
            State::Completed(answer) => answer_capacity(answer),
            _ => 1,
        };
        let mut out = BytesMut::with_capacity(2 + 8 + 32 + 16 + 8 + answer_size + CRC_BYTES);
        out.put_u8(FORMAT_VERSION);
        out.put_u8(match self.state {
            State::InProgress => STATE_IN_PROGRESS,
            State::Completed(_) => STATE_COMPLETED,
            State::Failed { .. } => STATE_FAILED,
            State::Released => STATE_RELEASED,
        });
        out.put_u64(self.fingerprint.profile().to_bits());
        out.put_slice(self.fingerprint.digest());
        out.put_slice(&self.token.to_bytes());
        out.put_u64(self.epoch.number());
        match &self.state {
            State::InProgress | State::Released => {}
            State::Completed(answer) => put_answer(&mut out, answer),
            State::Failed { no_effect } => out.put_u8(u8::from(*no_effect)),
        }
        sealed(out)
    }

    /// Decodes what [`to_bytes`](Self::to_bytes) has encoded; bodies and headers share the given allocation.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] where the version is unknown, or where the bytes are not exactly one record.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, Unreadable> {
        let mut reader = unsealed(bytes)?;
        let state = reader.u8()?;
        let profile = ProfileId::from_bits(u64::from_be_bytes(reader.array()?));
        let fingerprint = Fingerprint::from_parts(profile, reader.array()?);
        let token = Token::from_bytes(reader.array()?);
        let epoch = Epoch::from_number(u64::from_be_bytes(reader.array()?));
        let state = match state {
            STATE_IN_PROGRESS => State::InProgress,
            STATE_COMPLETED => State::Completed(reader.answer()?),
            STATE_FAILED => State::Failed { no_effect: reader.flag()? },
            STATE_RELEASED => State::Released,
            _ => return Err(Unreadable::Corrupt),
        };
        reader.end()?;
        Ok(Self { fingerprint, token, epoch, state })
    }
}

impl Answer {
    /// Encodes the answer alone.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(1 + answer_capacity(self) + CRC_BYTES);
        out.put_u8(FORMAT_VERSION);
        put_answer(&mut out, self);
        sealed(out)
    }

    /// Decodes what [`to_bytes`](Self::to_bytes) has encoded; bodies and headers share the given allocation.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] where the version is unknown, or where the bytes are not exactly one answer.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, Unreadable> {
        let mut reader = unsealed(bytes)?;
        let answer = reader.answer()?;
        reader.end()?;
        Ok(answer)
    }
}

/// Enough for the answer: a varint of a length takes at most ten bytes.
fn answer_capacity(answer: &Answer) -> usize {
    let lines = match answer {
        Answer::Response(response) => response.headers.len() + response.trailers.len(),
        Answer::Value(_) | Answer::NotKept => 0,
    };
    1 + 2 + 20 * (lines + 1) + answer.size()
}

fn put_answer(out: &mut BytesMut, answer: &Answer) {
    match answer {
        Answer::NotKept => out.put_u8(ANSWER_NOT_KEPT),
        Answer::Value(value) => {
            out.put_u8(ANSWER_VALUE);
            out.put_slice(value);
        }
        Answer::Response(response) => {
            out.put_u8(ANSWER_RESPONSE);
            out.put_u16(response.status);
            put_headers(out, &response.headers);
            put_headers(out, &response.trailers);
            out.put_slice(&response.body);
        }
    }
}

fn put_headers(out: &mut BytesMut, headers: &[Header]) {
    put_varint(out, headers.len());
    for Header { name, value } in headers {
        put_varint(out, name.len());
        out.put_slice(name);
        put_varint(out, value.len());
        out.put_slice(value);
    }
}

fn put_varint(out: &mut BytesMut, number: usize) {
    let mut rest = number;
    loop {
        let [low, ..] = (rest & 0x7f).to_le_bytes();
        rest >>= 7;
        if rest == 0 {
            return out.put_u8(low);
        }
        out.put_u8(low | 0x80);
    }
}

fn sealed(mut out: BytesMut) -> Bytes {
    out.put_u32(crc32fast::hash(&out));
    out.freeze()
}

/// Checks version and CRC, in this order: another version may have another frame.
fn unsealed(mut bytes: Bytes) -> Result<Reader, Unreadable> {
    let &version = bytes.first().ok_or(Unreadable::Corrupt)?;
    if version != FORMAT_VERSION {
        return Err(Unreadable::UnknownVersion { version });
    }
    let end = bytes.len().checked_sub(CRC_BYTES).filter(|&end| end >= 1).ok_or(Unreadable::Corrupt)?;
    let crc = bytes.split_off(end);
    if crc[..] != crc32fast::hash(&bytes).to_be_bytes() {
        return Err(Unreadable::Corrupt);
    }
    Ok(Reader(bytes.slice(1..)))
}

/// What is still to be read. Each step takes from the front, or finds the record corrupt.
struct Reader(Bytes);

impl Reader {
    fn take(&mut self, length: usize) -> Result<Bytes, Unreadable> {
        if length > self.0.len() {
            return Err(Unreadable::Corrupt);
        }
        Ok(self.0.split_to(length))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let mut array = [0; N];
        array.copy_from_slice(&self.take(N)?);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8, Unreadable> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn flag(&mut self) -> Result<bool, Unreadable> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Unreadable::Corrupt),
        }
    }

    fn varint(&mut self) -> Result<usize, Unreadable> {
        let mut number = 0_usize;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = self.u8()?;
            let low = usize::from(byte & 0x7f);
            let shifted = low << shift;
            if shifted >> shift != low {
                return Err(Unreadable::Corrupt);
            }
            number |= shifted;
            if byte & 0x80 == 0 {
                // A last group of zero is a longer way to write the same number.
                return if byte == 0 && shift > 0 { Err(Unreadable::Corrupt) } else { Ok(number) };
            }
        }
        Err(Unreadable::Corrupt)
    }

    fn headers(&mut self) -> Result<Vec<Header>, Unreadable> {
        let count = self.varint()?;
        // A line takes two bytes at least; a count that cannot be true must not reserve memory.
        if count > self.0.len() / 2 {
            return Err(Unreadable::Corrupt);
        }
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let length = self.varint()?;
            let name = self.take(length)?;
            let length = self.varint()?;
            headers.push(Header { name, value: self.take(length)? });
        }
        Ok(headers)
    }

    fn answer(&mut self) -> Result<Answer, Unreadable> {
        match self.u8()? {
            ANSWER_NOT_KEPT => Ok(Answer::NotKept),
            ANSWER_VALUE => Ok(Answer::Value(core::mem::take(&mut self.0))),
            ANSWER_RESPONSE => {
                let status = u16::from_be_bytes(self.array()?);
                let headers = self.headers()?;
                let trailers = self.headers()?;
                let body = core::mem::take(&mut self.0);
                Ok(Answer::Response(Arc::new(Response { status, headers, body, trailers })))
            }
            _ => Err(Unreadable::Corrupt),
        }
    }

    fn end(self) -> Result<(), Unreadable> {
        if self.0.is_empty() { Ok(()) } else { Err(Unreadable::Corrupt) }
    }
}
