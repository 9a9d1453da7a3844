//! `multipart/*`: the parts, in their order, without the boundary between them.

use super::encode::{put_bytes, put_length};
use super::media::sole_parameter;
use super::members::Members;

/// More headers than this on one part are nothing a client sends; the bound keeps memory proportional to the body.
const MAX_PART_HEADERS: usize = 32;

/// Writes headers and content of every part that counts; `None` if the body is not multipart as RFC 2046 has it.
///
/// All headers of a part are inside, their names in lower case and sorted, their values trimmed. The content is taken
/// as it is, also where it is JSON or multipart itself. What stands before the first boundary and after the last is
/// ignored, as RFC 2046 asks.
pub(super) fn canonical(body: &[u8], boundary: &[u8], members: &Members) -> Option<Vec<u8>> {
    let delimiter = [b"\r\n--", boundary].concat();
    let mut out = Vec::with_capacity(body.len());
    let mut rest = after_first_delimiter(body, &delimiter)?;
    loop {
        match line_after_delimiter(rest)? {
            DelimiterLine::Close => return Some(out),
            DelimiterLine::Part(part) => {
                let end = find(part, &delimiter)?;
                put_part(&mut out, &part[..end], members)?;
                rest = &part[end + delimiter.len()..];
            }
        }
    }
}

enum DelimiterLine<'a> {
    Close,
    Part(&'a [u8]),
}

/// The first delimiter needs no line break before it when it starts the body.
fn after_first_delimiter<'a>(body: &'a [u8], delimiter: &[u8]) -> Option<&'a [u8]> {
    body.strip_prefix(&delimiter[2..]).or_else(|| Some(&body[find(body, delimiter)? + delimiter.len()..]))
}

/// Reads what follows a boundary on its line: `--` closes, and white space pads. Anything else makes it another string
/// that only begins like the boundary.
fn line_after_delimiter(rest: &[u8]) -> Option<DelimiterLine<'_>> {
    if let Some(rest) = rest.strip_prefix(b"--") {
        let rest = without_padding(rest);
        return (rest.is_empty() || rest.starts_with(b"\r\n")).then_some(DelimiterLine::Close);
    }
    // The line break stays: it may begin the next delimiter, or end the headers of a part that has none.
    let rest = without_padding(rest);
    rest.starts_with(b"\r\n").then_some(DelimiterLine::Part(rest))
}

fn without_padding(line: &[u8]) -> &[u8] {
    &line[line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()..]
}

/// Writes one part, given from the line break of its delimiter on.
fn put_part(out: &mut Vec<u8>, part: &[u8], members: &Members) -> Option<()> {
    let mut rest = part.strip_prefix(b"\r\n")?;
    let mut headers = Vec::new();
    let mut name = None;
    let content = loop {
        let end = find(rest, b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        if line.is_empty() {
            break rest;
        }
        if headers.len() == MAX_PART_HEADERS {
            return None;
        }
        let header = Header::parse(line)?;
        if header.name == b"content-disposition" {
            if name.is_some() {
                return None;
            }
            name = Some(sole_parameter(header.value, b"name")?);
        }
        headers.push(header);
    };

    let kept = match name.flatten() {
        Some(name) => members.keeps_name(&name),
        None => members.keeps_nameless(),
    };
    if kept {
        headers.sort_by(|a, b| a.name.cmp(&b.name));
        put_length(out, headers.len());
        for header in &headers {
            put_bytes(out, &header.name);
            put_bytes(out, header.value);
        }
        put_bytes(out, content);
    }
    Some(())
}

struct Header<'a> {
    name: Vec<u8>,
    value: &'a [u8],
}

impl<'a> Header<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = &line[..colon];
        // A name with white space in it is a folded line or a trap for lenient readers.
        let visible = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
        visible.then(|| Self { name: name.to_ascii_lowercase(), value: line[colon + 1..].trim_ascii() })
    }
}

/// Where `needle`, which starts with a carriage return and holds no other, begins.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + haystack[from..].iter().position(|byte| *byte == b'\r')?;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
}
