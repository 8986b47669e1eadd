//! The syntax of nginx: words, blocks and comments, read as nginx reads them.

use crate::import::foreign_text::{ForeignText, Word};
use crate::mistakes::Position;

/// A statement: its name and arguments, and the block behind them if it has one.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    /// The name comes first.
    pub(super) words: Vec<Word>,
    pub(super) block: Option<Vec<Directive>>,
    /// The index of the file that it is in.
    pub(super) file: usize,
}

impl Directive {
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", |word| &word.text)
    }

    pub(super) fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The statement on one line, without its block.
    pub(super) fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }

    /// The statements of its block.
    pub(super) fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Deeper blocks are refused: honest files have six levels or so.
const DEPTH_MAX: usize = 32;

/// Reads a file; mistakes are noted in it.
pub(super) fn parse(file: &mut ForeignText, index: usize) -> Vec<Directive> {
    let tokens = match tokens(&file.text) {
        Ok(tokens) => tokens,
        Err((at, message)) => {
            file.mistake(&at, message);
            return Vec::new();
        }
    };
    // The statements of each open block, and the words before its brace.
    let mut open: Vec<(Vec<Directive>, Vec<Word>)> = vec![(Vec::new(), Vec::new())];
    let mut words: Vec<Word> = Vec::new();
    for token in tokens {
        match token {
            NginxToken::Word(word) => words.push(word),
            NginxToken::End(at) if words.is_empty() => {
                file.mistake(&at, "unexpected \";\": there is no statement before it");
            }
            NginxToken::End(_) => {
                let directive = Directive {
                    words: std::mem::take(&mut words),
                    block: None,
                    file: index,
                };
                if let Some((statements, _)) = open.last_mut() {
                    statements.push(directive);
                }
            }
            NginxToken::Open(at) => {
                if words.is_empty() {
                    file.mistake(&at, "unexpected \"{\": there is no statement before it");
                }
                if open.len() > DEPTH_MAX {
                    file.mistake(&at, "is nested too deeply");
                    return Vec::new();
                }
                open.push((Vec::new(), std::mem::take(&mut words)));
            }
            NginxToken::Close(at) => {
                note_unfinished(file, &mut words);
                if open.len() == 1 {
                    file.mistake(&at, "unexpected \"}\": no block is open");
                    continue;
                }
                close(&mut open, index);
            }
        }
    }
    note_unfinished(file, &mut words);
    close_rest(file, open, index)
}

/// Ends the blocks that are open at the end of the file; each is a mistake. Returns the statements
/// around all blocks.
fn close_rest(
    file: &mut ForeignText,
    mut open: Vec<(Vec<Directive>, Vec<Word>)>,
    index: usize,
) -> Vec<Directive> {
    while open.len() > 1 {
        if let Some(first) = open.last().and_then(|(_, words)| words.first()).cloned() {
            file.mistake(
                &first.at,
                format!("the block of {:?} is never closed", first.text),
            );
        }
        close(&mut open, index);
    }
    open.pop()
        .map(|(statements, _)| statements)
        .unwrap_or_default()
}

/// Ends the innermost block.
fn close(open: &mut Vec<(Vec<Directive>, Vec<Word>)>, file: usize) {
    let Some((statements, words)) = open.pop() else {
        return;
    };
    if let Some((around, _)) = open.last_mut() {
        around.push(Directive {
            words,
            block: Some(statements),
            file,
        });
    }
}

/// Notes words that no semicolon ends.
fn note_unfinished(file: &mut ForeignText, words: &mut Vec<Word>) {
    if let Some(first) = words.first() {
        let message = format!("expected \";\" or \"{{\" after {:?}", first.text);
        file.mistake(&first.at.clone(), message);
    }
    words.clear();
}

/// A piece of a file.
enum NginxToken {
    Word(Word),
    /// A semicolon.
    End(Position),
    Open(Position),
    Close(Position),
}

/// Splits the text; an error is a position and a message.
fn tokens(text: &str) -> Result<Vec<NginxToken>, (Position, String)> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: 1,
        column: 1,
    };
    let mut tokens = Vec::new();
    let mut is_lua = false;
    while let Some(letter) = lexer.peek() {
        let begin = lexer.here();
        match letter {
            '#' => lexer.skip_line(),
            ';' | '{' | '}' => {
                lexer.next();
                let at = begin;
                match letter {
                    ';' => tokens.push(NginxToken::End(at)),
                    '}' => tokens.push(NginxToken::Close(at)),
                    _ if is_lua => {
                        lexer.skip_lua(&at)?;
                        tokens.extend([NginxToken::Open(at.clone()), NginxToken::Close(at)]);
                    }
                    _ => tokens.push(NginxToken::Open(at)),
                }
                is_lua = false;
            }
            letter if letter.is_whitespace() => {
                lexer.next();
            }
            _ => {
                let word = lexer.word()?;
                is_lua = word.text.ends_with("_by_lua_block");
                tokens.push(NginxToken::Word(word));
            }
        }
    }
    Ok(tokens)
}

/// The reading of a text, letter by letter.
struct Lexer<'a> {
    text: &'a str,
    /// The byte that comes next.
    at: usize,
    line: u64,
    /// In characters, from 1.
    column: u64,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        self.column += 1;
        if letter == '\n' {
            self.line += 1;
            self.column = 1;
        }
        Some(letter)
    }

    /// The position of the letter that comes next.
    fn here(&self) -> Position {
        Position {
            line: self.line,
            column: self.column,
            span: (self.at, self.at + 1),
        }
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|letter| letter != '\n') {
            self.next();
        }
    }

    /// Skips a block of Lua, whose brace is open, up to its closing brace.
    fn skip_lua(&mut self, open: &Position) -> Result<(), (Position, String)> {
        let mut depth = 1_usize;
        while let Some(letter) = self.next() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                '\'' | '"' => while self.next().is_some_and(|inner| inner != letter) {},
                '-' if self.peek() == Some('-') => self.skip_line(),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err((open.clone(), "the block of Lua is never closed".to_owned()))
    }

    /// Reads a word, which may be in quotes.
    fn word(&mut self) -> Result<Word, (Position, String)> {
        let start = self.at;
        let begin = self.here();
        let quote = self.peek().filter(|letter| matches!(letter, '"' | '\''));
        if quote.is_some() {
            self.next();
        }
        let mut text = String::new();
        let mut before = ' ';
        loop {
            let Some(letter) = self.peek() else {
                if quote.is_some() {
                    return Err((begin, "the quote is never closed".to_owned()));
                }
                break;
            };
            let is_end = match quote {
                Some(quote) => letter == quote,
                None => letter.is_whitespace() || letter == ';' || (letter == '{' && before != '$'),
            };
            if is_end {
                break;
            }
            self.next();
            match (letter, self.peek()) {
                ('\\', Some(escaped)) => {
                    self.next();
                    if !matches!(escaped, '"' | '\'' | '\\' | ' ' | ';' | '{' | '}') {
                        text.push('\\');
                    }
                    text.push(escaped);
                }
                _ => text.push(letter),
            }
            before = letter;
        }
        if quote.is_some() {
            self.next();
        }
        let at = Position {
            span: (start, self.at),
            ..begin
        };
        Ok(Word { text, at })
    }
}
