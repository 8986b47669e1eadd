//! The syntax of HAProxy: a statement on each line, grouped in sections.

use crate::import::foreign_text::{ForeignText, Word};
use crate::mistakes::Position;

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
    let mut words: Vec<Word> = Vec::new();
    let mut is_inside = false;
    let mut quote: Option<(char, Position)> = None;
    let mut letters = (1_u64..).zip(line.trim_end_matches(['\n', '\r']).char_indices());
    let mut is_joined = false;
    while let Some((column, (at, letter))) = letters.next() {
        let here = Position {
            line: number,
            column,
            span: (start + at, start + at + letter.len_utf8()),
        };
        if quote.is_none() && letter == '#' {
            break;
        }
        if quote.is_none() && letter.is_whitespace() {
            is_inside = false;
            continue;
        }
        let mut added = Some(letter);
        match (&quote, letter) {
            (None, '"' | '\'') => {
                quote = Some((letter, here.clone()));
                added = None;
            }
            (Some((open, _)), letter) if letter == *open => {
                quote = None;
                added = None;
            }
            (None | Some(('"', _)), '\\') => {
                added = letters.next().map(|(_, (_, escaped))| escaped);
                is_joined = added.is_none();
            }
            _ => {}
        }
        if is_joined {
            break;
        }
        if !is_inside {
            is_inside = true;
            words.push(Word {
                text: String::new(),
                at: here.clone(),
            });
        }
        if let Some(word) = words.last_mut() {
            word.text.extend(added);
            word.at.span.1 = here.span.1;
        }
    }
    if let Some((_, at)) = quote {
        file.mistake(&at, "the quote is never closed");
        return (Vec::new(), false);
    }
    (words, is_joined)
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
