//! Promise 5: an answer comes back as it went in.

use bytes::Bytes;
use idem_core::{Answer, Change, Header, Response, Settlement};

use crate::expect::is_written;
use crate::scene::{Occupied, Scene, Verdict, claim, owner, settled};

cases! { 5:
    any_body_comes_back_byte_for_byte = "Bodies with NUL, invalid UTF-8, blanks at their ends, or JSON that an encoder would write otherwise.";
    a_mebibyte_comes_back_whole = "A body of 1 MiB is neither cut nor refused.";
    an_empty_body_is_not_an_answer_that_was_not_kept = "An empty response, an empty value and an answer that was not kept are three things.";
    a_value_is_not_a_response = "A value that is no HTTP response comes back as a value.";
    repeated_headers_come_back_in_order = "A header that stands twice comes back twice, between the same neighbours.";
    header_values_come_back_verbatim = "Header values keep their case, their blanks and bytes that are no text, and may be empty.";
    many_headers_come_back = "A response with hundreds of headers, one of them long, comes back whole.";
    trailers_come_back_as_trailers = "Trailers come back, in their order, and are not headers.";
    every_status_comes_back = "Every status from 100 to 599 comes back, and any other number too.";
}

/// Writes each answer twice, inserted and over a claim, and reads it by every way that there is.
async fn come_back(scene: &Scene, answers: impl IntoIterator<Item = Answer>) -> Verdict {
    for (label, answer) in answers.into_iter().enumerate() {
        let (inserted, replaced) = (scene.key(format_args!("i{label}"))?, scene.key(format_args!("r{label}"))?);
        let first = claim()?;
        let record = settled(&first, Settlement::Completed(answer));
        scene.insert(&inserted, &record).await?;
        scene.insert(&replaced, &first).await?;
        scene.write(&replaced, owner(&first), &record).await?;
        for key in [inserted, replaced] {
            is_written(&scene.find(&key).await?, &record)?;
            is_written(&scene.store().insert(&key, &claim()?).await?.occupied()?, &record)?;
            let again = Change::Record(record.clone());
            is_written(&scene.lose(&key, owner(&first), &again).await?, &record)?;
        }
    }
    Ok(())
}

fn with_body(body: impl Into<Bytes>) -> Answer {
    Response { status: 200, body: body.into(), ..Response::default() }.into()
}

fn with_headers(headers: &[(&'static str, &'static [u8])]) -> Answer {
    Response { status: 200, headers: lines(headers), body: "{}".into(), trailers: Vec::new() }.into()
}

fn lines(lines: &[(&'static str, &'static [u8])]) -> Vec<Header> {
    let line = |&(name, value): &(&'static str, &'static [u8])| Header { name: name.into(), value: value.into() };
    lines.iter().map(line).collect()
}

async fn any_body_comes_back_byte_for_byte(scene: &Scene) -> Verdict {
    let every_byte: Vec<u8> = (0..=255).cycle().take(1024).collect();
    let bodies: [Bytes; 12] = [
        every_byte.into(),
        Bytes::from_static(b"\0"),
        Bytes::from_static(b"\0before and after\0"),
        Bytes::from_static(b"before\0after"),
        Bytes::from_static(b"\xff\xfe\xc3("),
        Bytes::from_static(b"\xed\xa0\x80"),
        Bytes::from_static(b"\xef\xbb\xbf{\"bom\":true}"),
        Bytes::from_static(b"  blanks at both ends \r\n"),
        Bytes::from_static(b"{ \"b\" : 1.0, \"a\" : 1e2, \"b\" : 12345678901234567890 }"),
        Bytes::from_static(b"null"),
        Bytes::from_static(b"\\x00 \\u0000 %00 &amp; '' $1"),
        Bytes::from_static(b"\x1f\x8b\x08\0\0\0\0\0"),
    ];
    come_back(scene, bodies.into_iter().flat_map(|body| [with_body(body.clone()), Answer::Value(body)])).await
}

async fn a_mebibyte_comes_back_whole(scene: &Scene) -> Verdict {
    // No two stretches alike, and nothing that compresses away.
    let mut state = 0x9e37_79b9_u32;
    let mut body = Vec::with_capacity(1 << 20);
    while body.len() < 1 << 20 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        body.extend_from_slice(&state.to_be_bytes());
    }
    come_back(scene, [with_body(body)]).await
}

async fn an_empty_body_is_not_an_answer_that_was_not_kept(scene: &Scene) -> Verdict {
    come_back(scene, [with_body(""), Answer::Value(Bytes::new()), Answer::NotKept]).await
}

async fn a_value_is_not_a_response(scene: &Scene) -> Verdict {
    come_back(scene, [Answer::Value("HTTP/1.1 200 OK\r\n\r\n".into()), Answer::Value("\"paid\"".into())]).await
}

async fn repeated_headers_come_back_in_order(scene: &Scene) -> Verdict {
    let answer = with_headers(&[
        ("link", b"</b>; rel=next"),
        ("x-b", b"1"),
        ("link", b"</a>; rel=prev"),
        ("content-type", b"text/plain"),
        ("x-a", b"1"),
        ("link", b"</b>; rel=next"),
        ("warning", b"199 - \"a, b\""),
    ]);
    come_back(scene, [answer]).await
}

async fn header_values_come_back_verbatim(scene: &Scene) -> Verdict {
    let answer = with_headers(&[
        ("etag", b"W/\"AbC\""),
        ("location", b"/Payments/4711?Q=%2F"),
        ("x-empty", b""),
        ("x-blanks", b" two  blanks "),
        ("x-latin", b"caf\xe9"),
        ("x-bytes", b"\x80\xff"),
        ("x-number", b"0010"),
    ]);
    come_back(scene, [answer]).await
}

async fn many_headers_come_back(scene: &Scene) -> Verdict {
    let line = |number: usize| Header { name: format!("x-{number}").into(), value: number.to_string().into() };
    let mut headers: Vec<_> = (0..300).rev().map(line).collect();
    headers.push(Header { name: "x-long".into(), value: "v".repeat(20_000).into() });
    come_back(scene, [Response { status: 200, headers, ..Response::default() }.into()]).await
}

async fn trailers_come_back_as_trailers(scene: &Scene) -> Verdict {
    let headers = lines(&[("content-type", b"application/grpc")]);
    let trailers = lines(&[("grpc-status", b"0"), ("x-b", b"1"), ("x-b", b"2"), ("x-a", b"\xff")]);
    come_back(scene, [Response { status: 200, headers, body: "\0\0\0\0\0".into(), trailers }.into()]).await
}

async fn every_status_comes_back(scene: &Scene) -> Verdict {
    let status = |status| Response { status, ..Response::default() }.into();
    let usual = [100, 200, 201, 202, 204, 255, 256, 301, 303, 400, 404, 409, 422, 499, 599];
    come_back(scene, usual.into_iter().chain([0, 600, 999, 32_768, 65_535]).map(status)).await
}
