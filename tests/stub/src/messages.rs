//! Backend messages, written.

/// Appends a message; `body` writes what follows the length.
pub(crate) fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn count(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes()
}

pub(crate) fn data_row(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, b'D', |out| {
        out.extend_from_slice(&count(values.len()));
        for value in values {
            let length = value.map_or(-1, |value| i32::try_from(value.len()).unwrap_or(i32::MAX));
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(value.unwrap_or_default());
        }
    });
    out
}

/// Columns `c0`, `c1`, … of type `text`, in text form; `NoData` when there are none.
pub(crate) fn row_description(columns: usize) -> Vec<u8> {
    let mut out = Vec::new();
    if columns == 0 {
        message(&mut out, b'n', |_| {});
        return out;
    }
    message(&mut out, b'T', |out| {
        out.extend_from_slice(&count(columns));
        for column in 0..columns {
            string(out, &format!("c{column}"));
            out.extend_from_slice(&[0; 6]); // of no table
            out.extend_from_slice(&25_u32.to_be_bytes()); // text
            out.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]); // any width, text form
        }
    });
    out
}

pub(crate) fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| string(out, tag));
}

/// An `ErrorResponse`.
#[must_use]
pub fn error_response(severity: &str, sqlstate: &str, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, b'E', |out| {
        for (field, value) in [
            (b'S', severity),
            (b'V', severity),
            (b'C', sqlstate),
            (b'M', text),
        ] {
            out.push(field);
            string(out, value);
        }
        out.push(0);
    });
    out
}

/// What a server says between start-up packet and first request: trust, some parameters, key.
pub(crate) fn welcome(out: &mut Vec<u8>, process_id: u32) {
    const PARAMETERS: [(&str, &str); 7] = [
        ("server_version", "15.0"),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("TimeZone", "UTC"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
    ];
    message(out, b'R', |out| out.extend_from_slice(&[0; 4]));
    for (name, value) in PARAMETERS {
        message(out, b'S', |out| {
            string(out, name);
            string(out, value);
        });
    }
    message(out, b'K', |out| {
        out.extend_from_slice(&process_id.to_be_bytes());
        out.extend_from_slice(&process_id.to_be_bytes());
    });
    ready(out, b'I');
}

pub(crate) fn ready(out: &mut Vec<u8>, status: u8) {
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}

pub(crate) fn empty(out: &mut Vec<u8>, tag: u8) {
    out.extend_from_slice(&[tag, 0, 0, 0, 4]);
}
