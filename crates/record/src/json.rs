//! JSON as people read it: an entry a line, but lists on one.

use crate::RecordError;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};
use std::io::{Result, Write};
use std::path::Path;

/// The text of a file; `path` is for messages.
pub(crate) fn write(
    value: &impl Serialize,
    path: &Path,
) -> std::result::Result<String, RecordError> {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, Flat(PrettyFormatter::new()));
    value
        .serialize(&mut serializer)
        .map_err(|error| RecordError::corrupt(path, &error))?;
    text.push(b'\n');
    String::from_utf8(text).map_err(|error| RecordError::corrupt(path, &error))
}

/// A line for each number of a timeline would bury the rest: lists of plain values stay on one line.
struct Flat(PrettyFormatter<'static>);

impl Formatter for Flat {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> Result<()> {
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.0.end_object_value(writer)
    }
}
