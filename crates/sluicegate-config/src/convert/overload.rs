//! `overload`: the memory that the process may use.

use crate::field::Field;
use crate::tree::Value;
use crate::typed::{MemoryBudget, Overload};

/// The settings, with their defaults.
pub(super) fn overload(field: Option<&Field<'_>>) -> Overload {
    let by_default = Overload::default();
    let read = field.and_then(|field| {
        field.section(|section| Overload {
            memory: section.read("memory", by_default.memory, memory),
        })
    });
    read.unwrap_or(by_default)
}

/// `512MiB`, `80%` or `off`.
fn memory(field: &Field<'_>) -> Option<MemoryBudget> {
    if field.is_off() {
        return Some(MemoryBudget::Unlimited);
    }
    let percent = match &field.node.value {
        Value::Text(text) => text.strip_suffix('%'),
        _ => None,
    };
    let Some(percent) = percent else {
        let bytes = field.size(MemoryBudget::BYTES_MIN..=u64::MAX);
        return bytes.map(MemoryBudget::Bytes);
    };
    match percent.trim_end().parse() {
        Ok(percent @ 1..=100) => Some(MemoryBudget::Percent(percent)),
        _ => {
            field.note_with_value("expected a share from 1% to 100%");
            None
        }
    }
}
