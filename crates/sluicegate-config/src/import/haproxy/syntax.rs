//! The syntax of HAProxy: a statement on each line, grouped in sections.

use crate::import::foreign_text::{ForeignText, Word, position};

/// A section: `frontend NAME`, `backend NAME` and so on, with its statements.
#[derive(Debug)]
pub(super) struct HaproxySection {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) statements: Vec<Vec<Word>>,
}

const KINDS: [&str; 16] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "peers",
    "resolvers",
    "userlist",
    "mailers",
    "program",
    "cache",
    "http-errors",
    "ring",
    "fcgi-app",
    "log-forward",
    "crt-store",
];

/// Reads all sections; mistakes are noted in the file.
pub(super) fn sections(file: &mut ForeignText) -> Vec<HaproxySection> {
    let mut sections: Vec<HaproxySection> = Vec::new();
    for words in statements(file) {
        let Some(first) = words.first() else {
            continue;
        };
        if KINDS.contains(&first.text.as_str()) {
            let name = words
                .get(1)
                .map(|word| word.text.clone())
                .unwrap_or_default();
            if name.is_empty() && matches!(first.text.as_str(), "frontend" | "backend" | "listen") {
                file.mistake(&first.at.clone(), format!("{}: needs a name", first.text));
            }
            sections.push(HaproxySection {
                kind: first.text.clone(),
                name,
                statements: Vec::new(),
            });
            continue;
        }
        match sections.last_mut() {
            Some(section) => section.statements.push(words),
            // Conditions on the version or the environment.
            None if first.text.starts_with('.') => {}
            None => {
                let message = format!("{:?} stands before the first section", first.text);
                file.mistake(&first.at.clone(), message);
            }
        }
    }
    sections
}

/// The words of each line. A backslash at its end joins a line to the next one.
fn statements(file: &mut ForeignText) -> Vec<Vec<Word>> {
    let mut statements = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let mut start = 0;
    let text = file.text.clone();
    for (number, line) in (1_u64..).zip(text.split_inclusive('\n')) {
        let (found, is_joined) = words_of(file, line, number, start);
        words.extend(found);
        if !is_joined {
            statements.push(std::mem::take(&mut words));
        }
        start += line.len();
    }
    statements.push(words);
    statements
}

/// The words of a line that begins at the byte `start`; true when the next line belongs to it.
fn words_of(file: &mut ForeignText, line: &str, number: u64, start: usize) -> (Vec<Word>, bool) {
    let mut words = Vec::new();
    let mut word: Option<(usize, String)> = None;
    let mut quote: Option<(char, usize)> = None;
    let mut letters = line
        .trim_end_matches(['\n', '\r'])
        .char_indices()
        .peekable();
    let mut is_joined = false;
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (None, '#') => break,
            (None, letter) if letter.is_whitespace() => {
                words.extend(word.take().map(|(begin, text)| (begin, at, text)));
            }
            (None, '"' | '\'') => {
                quote = Some((letter, at));
                word.get_or_insert_with(|| (at, String::new()));
            }
            (Some((open, _)), letter) if letter == open => quote = None,
            (None | Some(('"', _)), '\\') => match letters.next() {
                Some((_, escaped)) => {
                    word.get_or_insert_with(|| (at, String::new()))
                        .1
                        .push(escaped);
                }
                None => is_joined = true,
            },
            _ => word
                .get_or_insert_with(|| (at, String::new()))
                .1
                .push(letter),
        }
    }
    let end = line.trim_end().len();
    words.extend(
        word.take()
            .map(|(begin, text)| (begin, end.max(begin), text)),
    );
    let place = |begin: usize, end: usize| {
        position(&file.text, number, start, (start + begin, start + end))
    };
    if let Some((_, at)) = quote {
        let at = place(at, at + 1);
        file.mistake(&at, "the quote is never closed");
        return (Vec::new(), false);
    }
    let words = words.into_iter().map(|(begin, end, text)| Word {
        text,
        at: place(begin, end),
    });
    (words.collect(), is_joined)
}

/// Milliseconds of a time: `10s`, `1m`, or a number of milliseconds.
pub(super) fn millis(text: &str) -> Option<u64> {
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let length = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis = u64::from(number.parse::<u32>().ok()?) * length;
    Some(millis).filter(|millis| *millis > 0)
}
