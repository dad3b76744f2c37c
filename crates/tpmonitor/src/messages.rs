//! Messages as the monitor writes them itself (documentation of `PostgreSQL`, "Message Formats").

/// `ParseComplete`.
pub(crate) const PARSE_COMPLETE: [u8; 5] = [b'1', 0, 0, 0, 4];
/// `CloseComplete`.
pub(crate) const CLOSE_COMPLETE: [u8; 5] = [b'3', 0, 0, 0, 4];
/// `Sync`.
pub(crate) const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];
/// `AuthenticationOk`.
pub(crate) const AUTHENTICATION_OK: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 0];

/// A protocol version of a start-up packet.
pub(crate) const PROTOCOL_3_0: u32 = 0x0003_0000;
/// The newest that is spoken: cancel keys of any length.
pub(crate) const PROTOCOL_3_2: u32 = 0x0003_0002;

/// Appends a message: its type, its length, and what `body` writes.
pub(crate) fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    sized(out, body);
}

/// Appends a length that counts itself, and what `body` writes.
pub(crate) fn sized(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = word(out.len() - start);
    out[start..start + 4].copy_from_slice(&length);
}

/// A length word; what the monitor writes is far below 4 GiB.
pub(crate) fn word(size_bytes: usize) -> [u8; 4] {
    u32::try_from(size_bytes).unwrap_or(u32::MAX).to_be_bytes()
}

/// Appends a zero-terminated string; a zero byte inside would end it early and is left out.
pub(crate) fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().copied().filter(|&byte| byte != 0));
    out.push(0);
}

/// How bad an error is to the session that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The session goes on.
    Error,
    /// The session is over.
    Fatal,
    /// It is a remark, and no error.
    Notice,
}

/// `ErrorResponse`, or `NoticeResponse`.
pub(crate) fn error(out: &mut Vec<u8>, severity: Severity, sqlstate: &str, text: &str) {
    let severity = match severity {
        Severity::Error => "ERROR",
        Severity::Fatal => "FATAL",
        Severity::Notice => "NOTICE",
    };
    let tag = if severity == "NOTICE" { b'N' } else { b'E' };
    message(out, tag, |out| {
        for (field, value) in [
            (b'S', severity),
            (b'V', severity),
            (b'C', sqlstate),
            (b'M', text),
        ] {
            out.push(field);
            string(out, value.as_bytes());
        }
        out.push(0);
    });
}

/// `ReadyForQuery`.
pub(crate) fn ready(out: &mut Vec<u8>, status: u8) {
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}

/// `ParameterStatus`.
pub(crate) fn parameter(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    message(out, b'S', |out| {
        string(out, name);
        string(out, value);
    });
}

/// `CommandComplete`.
pub(crate) fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| string(out, tag.as_bytes()));
}

/// `Query`.
pub(crate) fn query(out: &mut Vec<u8>, sql: &str) {
    message(out, b'Q', |out| string(out, sql.as_bytes()));
}

/// Executes a command by the extended protocol, which leaves the client's unnamed statement and portal alone. A `Sync`
/// has to follow.
pub(crate) fn execute_apart(out: &mut Vec<u8>, sql: &str) {
    let name = [crate::statements::PREFIX, b"own\0"].concat();
    message(out, b'P', |out| {
        out.extend_from_slice(&name);
        string(out, sql.as_bytes());
        out.extend_from_slice(&[0; 2]);
    });
    message(out, b'B', |out| {
        out.extend_from_slice(&[&name[..], &name, &[0; 6]].concat());
    });
    message(out, b'E', |out| {
        out.extend_from_slice(&[&name[..], &[0; 4]].concat());
    });
    for kind in [b'P', b'S'] {
        message(out, b'C', |out| {
            out.extend_from_slice(&[&[kind], &name[..]].concat());
        });
    }
}

/// `Close` of a prepared statement.
pub(crate) fn close_statement(out: &mut Vec<u8>, name: &[u8]) {
    message(out, b'C', |out| {
        out.push(b'S');
        string(out, name);
    });
}

/// `Parse`; `body` is the query and the parameter types as they were sent.
pub(crate) fn parse(out: &mut Vec<u8>, name: &[u8], body: &[u8]) {
    message(out, b'P', |out| {
        string(out, name);
        out.extend_from_slice(body);
    });
}

/// Types of columns (`pg_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Int4,
    Text,
    Numeric,
}

/// `RowDescription` of columns in text form.
pub(crate) fn row_description<'a>(
    out: &mut Vec<u8>,
    columns: impl Iterator<Item = (&'a str, Type)>,
) {
    message(out, b'T', |out| {
        let start = out.len();
        out.extend_from_slice(&[0; 2]);
        let mut count = 0_u16;
        for (name, kind) in columns {
            string(out, name.as_bytes());
            out.extend_from_slice(&[0; 6]); // no table, no column of one
            let (oid, size_bytes): (u32, i16) = match kind {
                Type::Int4 => (23, 4),
                Type::Text => (25, -1),
                Type::Numeric => (1700, -1),
            };
            out.extend_from_slice(&oid.to_be_bytes());
            out.extend_from_slice(&size_bytes.to_be_bytes());
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            out.extend_from_slice(&[0; 2]); // text
            count += 1;
        }
        out[start..start + 2].copy_from_slice(&count.to_be_bytes());
    });
}

/// `DataRow` in text form; `None` is NULL.
pub(crate) fn data_row(out: &mut Vec<u8>, cells: &[Option<String>]) {
    message(out, b'D', |out| {
        let count = u16::try_from(cells.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&count.to_be_bytes());
        for cell in cells {
            match cell {
                Some(text) => {
                    out.extend_from_slice(&word(text.len()));
                    out.extend_from_slice(text.as_bytes());
                }
                None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
    });
}

/// The cells of a `DataRow`; `None` is NULL.
pub(crate) fn cells(body: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let (&count, mut rest) = body.split_first_chunk()?;
    let mut cells = Vec::new();
    for _ in 0..u16::from_be_bytes(count) {
        let (&length, after) = rest.split_first_chunk()?;
        rest = after;
        cells.push(match u32::from_be_bytes(length) {
            u32::MAX => None,
            length => {
                let (cell, after) = rest.split_at_checked(length as usize)?;
                rest = after;
                Some(cell)
            }
        });
    }
    Some(cells)
}

/// The fields of an `ErrorResponse` that the monitor looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ErrorFields<'a> {
    pub(crate) severity: &'a [u8],
    pub(crate) sqlstate: &'a [u8],
    pub(crate) text: &'a [u8],
    pub(crate) routine: &'a [u8],
}

/// Reads an `ErrorResponse`, as far as it is there.
pub(crate) fn error_fields(mut body: &[u8]) -> ErrorFields<'_> {
    let mut fields = ErrorFields::default();
    while let Some((&field, rest)) = body.split_first()
        && field != 0
        && let Some((value, after)) = tenbin_wire::frames::split_string(rest)
    {
        match field {
            b'V' => fields.severity = value,
            b'S' if fields.severity.is_empty() => fields.severity = value,
            b'C' => fields.sqlstate = value,
            b'M' => fields.text = value,
            b'R' => fields.routine = value,
            _ => {}
        }
        body = after;
    }
    fields
}
