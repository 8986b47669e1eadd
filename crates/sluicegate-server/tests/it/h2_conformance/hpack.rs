//! Header compression (RFC 7541).

use sluicegate_testkit::h2_frames::{END_STREAM, field, get_fields, push_integer};

use super::driver::{COMPRESSION, Case, Expect, PROTOCOL, case, headers};

pub fn cases() -> Vec<Case> {
    let mut cases = broken();
    cases.extend(understood());
    cases
}

/// A GET whose fields end with these bytes.
fn ending_with(bytes: &[u8]) -> Vec<u8> {
    headers(1, END_STREAM, &[&get_fields("/")[..], bytes].concat())
}

/// An integer with a prefix of seven bits.
fn indexed(index: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_integer(&mut bytes, 0x80, 127, index);
    bytes
}

/// A change of the table's size.
fn size_update(size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_integer(&mut bytes, 0x20, 31, size);
    bytes
}

fn broken() -> Vec<Case> {
    let fails = |name, send| case(name, send, Expect::ConnectionError(&[COMPRESSION]));
    let at_first = |update: &[u8]| {
        let block = [update, &get_fields("/")].concat();
        headers(1, END_STREAM, &block)
    };
    vec![
        fails("index 0", ending_with(&[0x80])),
        fails("an index beyond both tables", ending_with(&indexed(62))),
        fails(
            "an index far beyond both tables",
            ending_with(&indexed(1 << 20)),
        ),
        fails(
            "a name by an index beyond both tables",
            ending_with(&[0x7e, 1, b'x']),
        ),
        fails(
            "an integer without an end",
            ending_with(&[0xff, 0xff, 0xff]),
        ),
        fails(
            "an integer that is too large",
            ending_with(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        ),
        fails(
            "an integer with many zeros behind it",
            ending_with(&[
                0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1,
            ]),
        ),
        fails("a name that is cut off", ending_with(&[0, 5, b'x'])),
        fails(
            "a value that is cut off",
            ending_with(&[0, 1, b'x', 5, b'y']),
        ),
        fails("a field without a value", ending_with(&[0, 1, b'x'])),
        fails("a field without a name", ending_with(&[0])),
        fails(
            "a code with more padding than seven bits",
            ending_with(&[0, 1, b'x', 0x82, 0x1f, 0xff]),
        ),
        fails(
            "a code whose padding is not of ones",
            ending_with(&[0, 1, b'x', 0x81, 0x18]),
        ),
        fails(
            "a code with the end of text",
            ending_with(&[0, 1, b'x', 0x84, 0xff, 0xff, 0xff, 0xff]),
        ),
        fails("a table larger than allowed", at_first(&size_update(4_097))),
        fails(
            "a table far larger than allowed",
            at_first(&size_update(1 << 28)),
        ),
        fails(
            "a change of the table behind a field",
            ending_with(&size_update(0)),
        ),
        fails("a field that was evicted", {
            let kept = [&[0x40][..], &field("x-kept", "1")[1..]].concat();
            let first = headers(1, END_STREAM, &[get_fields("/"), kept].concat());
            let emptied = [size_update(0), get_fields("/"), indexed(62)].concat();
            [first, headers(3, END_STREAM, &emptied)].concat()
        }),
        case(
            "no fields at all",
            headers(1, END_STREAM, &[]),
            Expect::Refused(1),
        ),
        case(
            "nothing but a change of the table",
            headers(1, END_STREAM, &size_update(0)),
            Expect::Refused(1),
        ),
        case(
            "fields with one that is broken behind the end of a request",
            [super::driver::get(1), headers(3, END_STREAM, &[0x80])].concat(),
            Expect::ConnectionError(&[COMPRESSION, PROTOCOL]),
        ),
    ]
}

fn understood() -> Vec<Case> {
    let passes = |name, stream, send| case(name, send, Expect::Status(stream, 200));
    let with_table = |update: Vec<u8>| {
        let block = [update, get_fields("/")].concat();
        headers(1, END_STREAM, &block)
    };
    let kept = [&[0x40][..], &field("x-kept", "1")[1..]].concat();
    let twice = [
        headers(1, END_STREAM, &[get_fields("/"), kept].concat()),
        headers(3, END_STREAM, &[get_fields("/"), indexed(62)].concat()),
    ]
    .concat();
    let large = [&[0x40][..], &field("x-large", "a".repeat(5_000))[1..]].concat();
    vec![
        passes(
            "fields of the fixed table alone",
            1,
            headers(
                1,
                END_STREAM,
                &[&[0x82, 0x86, 0x84][..], &field(":authority", "a.example")].concat(),
            ),
        ),
        passes(
            "a name by its index",
            1,
            headers(
                1,
                END_STREAM,
                &[&[0x82, 0x86, 0x84, 0x41, 9][..], b"a.example"].concat(),
            ),
        ),
        passes(
            "a field that is never kept",
            1,
            ending_with(&[0x10, 1, b'x', 1, b'y']),
        ),
        passes(
            "a field that is not kept",
            1,
            ending_with(&[0x00, 1, b'x', 1, b'y']),
        ),
        passes("a field that is kept and used again", 3, twice),
        passes(
            "a field that is larger than the table",
            1,
            ending_with(&large),
        ),
        passes(
            "a value in the code",
            1,
            ending_with(
                &[&[
                    0, 1, b'x', 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90,
                    0xf4, 0xff,
                ][..]]
                .concat(),
            ),
        ),
        passes(
            "an empty value in the code",
            1,
            ending_with(&[0, 1, b'x', 0x80]),
        ),
        passes(
            "a table that is set to no size",
            1,
            with_table(size_update(0)),
        ),
        passes(
            "a table of the largest size",
            1,
            with_table(size_update(4_096)),
        ),
        passes(
            "a table that is emptied and filled again",
            1,
            with_table([size_update(0), size_update(4_096)].concat()),
        ),
    ]
}
