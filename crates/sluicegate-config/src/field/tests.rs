use super::*;
use crate::expand::Origin;
use crate::mistakes::Position;

#[test]
fn sizes_are_bytes_or_have_a_binary_unit() {
    assert_eq!(
        ["512", "512B", "64KiB", "1 MiB", "2GiB"].map(parse_size),
        [512, 512, 65_536, 1 << 20, 2 << 30].map(Some)
    );
    for text in [
        "",
        "KiB",
        "1KB",
        "1MB",
        "1.5MiB",
        "-1",
        "1e3",
        "99999999999GiB",
        "1kib",
    ] {
        assert_eq!(parse_size(text), None, "{text}");
    }
}

#[test]
fn an_error_that_repeats_a_value_from_outside_is_not_passed_on() {
    let mistakes = MistakeLog::default();
    let context = ReadContext::new(Path::new(""), &mistakes, &|_| None);
    let origin = Origin {
        hidden: Some("value from a file"),
        ..Origin::default()
    };
    let at = Position {
        line: 1,
        column: 1,
        span: (0, 0),
    };
    let node = Node {
        value: Value::Text("hunter2".into()),
        at,
        origin,
    };
    let field = Field {
        path: "a".into(),
        node: &node,
        context: &context,
    };
    assert_eq!(
        field.parsed(|text| Err::<(), _>(format!("{text} is odd"))),
        None
    );
    assert_eq!(
        mistakes.take()[0].to_string(),
        "a: is not accepted (value from a file)"
    );
}
