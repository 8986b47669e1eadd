//! `reject`: the response to denied requests, of one limit or of all.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use sluicegate_core::{OwnRejection, RejectionError};

use crate::field::{Field, Section};
use crate::typed::BodyFile;

/// The key `reject` of a section; what it leaves out comes from `default`.
pub(super) fn reject(
    section: &mut Section<'_>,
    default: Option<&Arc<OwnRejection>>,
) -> Option<Arc<OwnRejection>> {
    let own = section.subsection("reject").and_then(|field| read(&field));
    match (own, default) {
        (None, default) => default.cloned(),
        (Some(own), None) => Some(Arc::new(own)),
        (Some(own), Some(default)) => Some(Arc::new(own.or(default))),
    }
}

/// `{ status, body, body_file, content_type, headers }`
fn read(field: &Field<'_>) -> Option<OwnRejection> {
    field.section(|section| {
        let mut own = OwnRejection::default();
        if let Some(status) = section.optional("status", |field| field.whole_number(400..=599)) {
            own = or_note(own, section.field(), |own| own.with_status(status as u16));
        }
        own = with_body(own, section);
        if let Some(headers) = section.get("headers") {
            for (name, field) in headers.entries().unwrap_or_default() {
                if let Some(value) = field.any_text() {
                    own = or_note(own, &field, |own| own.with_header(name, value));
                }
            }
        }
        own
    })
}

/// The body, from the configuration or from a file, with its type.
fn with_body(own: OwnRejection, section: &mut Section<'_>) -> OwnRejection {
    let (body, file) = (section.get("body"), section.get("body_file"));
    let content_type = section.optional("content_type", content_type);
    match (body, file) {
        (None, None) => {
            if content_type.is_some() {
                let place = section.first_of(&["content_type"]);
                place.note("needs body or body_file beside it");
            }
            own
        }
        (Some(_), Some(file)) => {
            file.note("cannot be combined with body: use one of them");
            own
        }
        (Some(body), None) => match body.any_text() {
            Some(text) => or_note(own, &body, |own| own.with_body(text, content_type)),
            None => own,
        },
        (None, Some(field)) => match read_body(&field) {
            Some(file) => {
                let content_type = content_type.or_else(|| type_of_file(&file.path));
                or_note(own, &field, |own| own.with_body(&file.text, content_type))
            }
            None => own,
        },
    }
}

/// A media type, which an empty body tries out.
fn content_type<'a>(field: &Field<'a>) -> Option<&'a str> {
    field.parsed(|text| {
        let tried = OwnRejection::default().with_body("", Some(text));
        tried.map(|_| ())
    })?;
    field.text()
}

/// Takes a step, or notes at a field why it cannot be taken.
fn or_note(
    own: OwnRejection,
    field: &Field<'_>,
    step: impl FnOnce(OwnRejection) -> Result<OwnRejection, RejectionError>,
) -> OwnRejection {
    match step(own.clone()) {
        Ok(next) => next,
        Err(error) => {
            field.note(error.to_string());
            own
        }
    }
}

/// Reads the file of a body, and notes it among those that belong to the configuration.
fn read_body(field: &Field<'_>) -> Option<Arc<BodyFile>> {
    let path = field.file()?;
    let mut known = field.context.body_files.borrow_mut();
    if let Some(known) = known.iter().find(|known| known.path == path) {
        return Some(Arc::clone(known));
    }
    match read_text(&path) {
        Ok(text) => {
            let file = Arc::new(BodyFile { path, text });
            known.push(Arc::clone(&file));
            Some(file)
        }
        Err(error) => {
            field.note(format!("cannot read {}: {error}", path.display()));
            None
        }
    }
}

/// The text of a regular file that is not longer than a body may be.
fn read_text(path: &Path) -> io::Result<String> {
    // Reading a pipe or a device could block for ever.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(OwnRejection::BODY_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > OwnRejection::BODY_MAX {
        return Err(io::Error::other("it is longer than 64 KiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// The media type that the name of a file tells; `None` leaves it to the content.
fn type_of_file(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "html" | "htm" => Some("text/html; charset=utf-8"),
        "json" => Some("application/json"),
        "xml" => Some("application/xml"),
        "txt" => Some("text/plain; charset=utf-8"),
        _ => None,
    }
}
