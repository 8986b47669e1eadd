//! The usual form of a check, read where it lies: `{"limit": "per-user", "key": ["ann"], "cost": 2}`.
//!
//! Whatever is written in another way, or is wrong, is left to the reader of all forms, which also
//! names the mistake. So this one knows no escapes, no `null`, and no error.

use smallvec::SmallVec;

/// A check of one counter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlainCounterCheck<'a> {
    pub(crate) limit: &'a str,
    pub(crate) key: SmallVec<[&'a str; 4]>,
    pub(crate) cost: u64,
}

/// Reads a check in its usual form; `None` if it is written in any other.
pub(crate) fn plain_counter_check(body: &[u8]) -> Option<PlainCounterCheck<'_>> {
    let mut text = PlainText(body);
    let (mut limit, mut key, mut cost) = (None, None, None);
    text.symbol(b'{')?;
    loop {
        let is_first = match text.string()? {
            "limit" => {
                text.symbol(b':')?;
                limit.replace(text.string()?).is_none()
            }
            "key" => {
                text.symbol(b':')?;
                key.replace(text.strings()?).is_none()
            }
            "cost" => {
                text.symbol(b':')?;
                cost.replace(text.number()?).is_none()
            }
            _ => false,
        };
        if !is_first {
            return None;
        }
        match text.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    text.is_at_end().then_some(())?;
    Some(PlainCounterCheck {
        limit: limit?,
        key: key?,
        cost: u64::from(cost.unwrap_or(1)),
    })
}

/// The rest of a text in JSON.
struct PlainText<'a>(&'a [u8]);

impl<'a> PlainText<'a> {
    fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// The next byte that is no space.
    fn next(&mut self) -> Option<u8> {
        self.skip_space();
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn symbol(&mut self, symbol: u8) -> Option<()> {
        (self.next()? == symbol).then_some(())
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.0.is_empty()
    }

    /// A string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.symbol(b'"')?;
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
        let end = self.0.iter().position(is_special)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = rest;
        self.symbol(b'"')?;
        str::from_utf8(text).ok()
    }

    /// A list of such strings.
    fn strings(&mut self) -> Option<SmallVec<[&'a str; 4]>> {
        let mut strings = SmallVec::new();
        self.symbol(b'[')?;
        self.skip_space();
        if let [b']', rest @ ..] = self.0 {
            self.0 = rest;
            return Some(strings);
        }
        loop {
            strings.push(self.string()?);
            match self.next()? {
                b',' => {}
                b']' => return Some(strings),
                _ => return None,
            }
        }
    }

    /// A number of units, in digits.
    fn number(&mut self) -> Option<u32> {
        self.skip_space();
        let end = self.0.iter().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = self.0.split_at(end);
        // A fraction or an exponent is no sign that may follow.
        self.0 = rest;
        match digits {
            [b'0', _, ..] => None,
            _ => str::from_utf8(digits).ok()?.parse().ok(),
        }
    }
}
