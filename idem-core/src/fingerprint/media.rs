//! Reading header values that describe a body.

/// The media type without its parameters, trimmed and in lower case.
pub(super) fn essence(content_type: &[u8]) -> Vec<u8> {
    let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
    content_type[..end].trim_ascii().to_ascii_lowercase()
}

/// The content coding, trimmed and in lower case; `None` where there is none to undo.
///
/// `identity` and the empty list are other ways to say that (RFC 9110, section 12.5.3).
pub(super) fn coding(content_encoding: Option<&[u8]>) -> Option<Vec<u8>> {
    let coding = content_encoding?.trim_ascii().to_ascii_lowercase();
    (!coding.is_empty() && coding != b"identity").then_some(coding)
}

/// The boundary of a multipart media type, if it names exactly one that RFC 2046 allows.
pub(super) fn boundary(content_type: &[u8]) -> Option<Vec<u8>> {
    let boundary = sole_parameter(content_type, b"boundary")??;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    let fits = (1..=70).contains(&boundary.len()) && boundary.iter().all(allowed) && !boundary.ends_with(b" ");
    fits.then_some(boundary)
}

/// The value of a parameter in `value; name=token; name="quoted string"`.
///
/// `None` says that the parameters are malformed or name it twice, `Some(None)` that it is not there.
pub(super) fn sole_parameter(header: &[u8], wanted: &[u8]) -> Option<Option<Vec<u8>>> {
    let Some(start) = header.iter().position(|byte| *byte == b';') else {
        return Some(None);
    };
    let mut found = None;
    let mut rest = &header[start..];
    while let Some((b';', after)) = rest.split_first() {
        rest = after.trim_ascii_start();
        if rest.is_empty() || rest.starts_with(b";") {
            continue;
        }
        let equals = rest.iter().position(|byte| *byte == b'=')?;
        let name = rest[..equals].trim_ascii();
        let value;
        (value, rest) = parameter_value(rest[equals + 1..].trim_ascii_start())?;
        if name.eq_ignore_ascii_case(wanted) && found.replace(value).is_some() {
            return None;
        }
        rest = rest.trim_ascii_start();
    }
    rest.is_empty().then_some(found)
}

fn parameter_value(rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = rest.strip_prefix(b"\"") else {
        let end = rest.iter().position(|byte| *byte == b';').unwrap_or(rest.len());
        return Some((rest[..end].trim_ascii().to_vec(), &rest[end..]));
    };
    let mut value = Vec::new();
    let mut at = 0;
    loop {
        match quoted.get(at)? {
            b'"' => return Some((value, &quoted[at + 1..])),
            b'\\' => {
                value.push(*quoted.get(at + 1)?);
                at += 2;
            }
            plain => {
                value.push(*plain);
                at += 1;
            }
        }
    }
}
