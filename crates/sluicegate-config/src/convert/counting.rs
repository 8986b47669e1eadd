//! `count_when` and `refund_when`: limits that count by the answer.

use sluicegate_core::{AnswerPattern, AnswerSet, Counting};

use crate::field::{Field, Section};
use crate::tree::Value;

/// When a limit counts: at most one of both keys.
pub(super) fn counting(section: &mut Section<'_>) -> Counting {
    let count = section.subsection("count_when");
    let refund = section.subsection("refund_when");
    match (count, refund) {
        (None, None) => Counting::Always,
        (Some(field), None) => Counting::When(answers(&field)),
        (None, Some(field)) => Counting::RefundWhen(answers(&field)),
        (Some(count), Some(refund)) => {
            // Both are read, so that their mistakes are noted.
            let _ = (answers(&count), answers(&refund));
            refund.note("cannot be combined with count_when: a limit that counts by the answer has nothing to give back");
            Counting::Always
        }
    }
}

/// `{ status: [401, 5xx], grpc_status: [16] }`
fn answers(field: &Field<'_>) -> AnswerSet {
    let read = field.section(|section| {
        let mut listed = 0;
        let of_http = section.all("status", |field| {
            listed += 1;
            status(field)
        });
        let of_grpc = section.all("grpc_status", |field| {
            listed += 1;
            field.whole_number(0..=16).and_then(AnswerPattern::grpc)
        });
        if listed == 0 {
            let place = section.field();
            place.note("needs status, grpc_status or both, such as status: [401, 5xx]");
        }
        of_http.into_iter().chain(of_grpc).collect::<AnswerSet>()
    });
    read.unwrap_or_default()
}

/// A status, or a class of them.
fn status(field: &Field<'_>) -> Option<AnswerPattern> {
    match field.node.value {
        Value::Text(_) => field.parsed(str::parse),
        _ => field
            .whole_number(100..=599)
            .and_then(|number| AnswerPattern::status(number).ok()),
    }
}
