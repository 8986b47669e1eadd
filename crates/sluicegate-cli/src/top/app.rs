//! The live view without a terminal: what is shown, and what a key press means.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Order;
use super::seen::{KeySeen, Seen};

/// Everything that the view shows.
#[derive(Debug)]
pub struct App {
    pub place: String,
    pub seen: Seen,
    /// Why there is nothing newer, if so.
    pub trouble: Option<String>,
    pub tab: Tab,
    pub by: Order,
    pub filter: String,
    pub selected: usize,
    pub mode: Mode,
    /// What came of the last order.
    pub news: Option<String>,
}

/// What the lower part shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Keys,
    Limits,
    Orders,
}

impl Tab {
    pub const ALL: [Self; 3] = [Self::Keys, Self::Limits, Self::Orders];

    fn next(self, steps: usize) -> Self {
        let at = Self::ALL.iter().position(|tab| *tab == self).unwrap_or(0);
        Self::ALL[(at + steps) % Self::ALL.len()]
    }
}

/// Whom a key press is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Looking,
    Filtering,
    /// Whether this key is to be reset; `text` is what was shown.
    Asking {
        text: String,
        name: (String, Vec<String>),
    },
    Help,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    Quit,
    /// Keys are asked for in another order.
    Sort,
    Reset {
        limit: String,
        parts: Vec<String>,
    },
}

impl App {
    pub fn new(place: String, by: Order) -> Self {
        Self {
            place,
            seen: Seen::default(),
            trouble: Some("asking…".to_owned()),
            tab: Tab::Keys,
            by,
            filter: String::new(),
            selected: 0,
            mode: Mode::Looking,
            news: None,
        }
    }

    /// Takes what came, and keeps the old picture when nothing did.
    pub fn take(&mut self, came: Result<Seen, String>) {
        match came {
            Ok(seen) => {
                self.seen = seen;
                self.trouble = None;
            }
            Err(why) => self.trouble = Some(why),
        }
        self.selected = self.selected.min(self.keys().count().saturating_sub(1));
    }

    /// The keys that the filter lets through.
    pub fn keys(&self) -> impl Iterator<Item = &KeySeen> {
        self.seen
            .keys
            .iter()
            .filter(|key| key.text.contains(&self.filter))
    }

    pub fn press(&mut self, key: KeyEvent) -> Wish {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Looking) {
            Mode::Looking => self.look(key.code),
            Mode::Filtering => self.type_filter(key.code),
            Mode::Asking { text, name } => self.answer(key.code, text, name),
            Mode::Help => Wish::Nothing,
        }
    }

    fn look(&mut self, key: KeyCode) -> Wish {
        let last = self.keys().count().saturating_sub(1);
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
            KeyCode::Tab => self.tab = self.tab.next(1),
            KeyCode::BackTab => self.tab = self.tab.next(Tab::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Char('/') => self.mode = Mode::Filtering,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('r') if self.tab == Tab::Keys => self.ask_to_reset(),
            KeyCode::Char('s') => {
                self.by = if self.by == Order::Denied {
                    Order::Requests
                } else {
                    Order::Denied
                };
                return Wish::Sort;
            }
            _ => {}
        }
        Wish::Nothing
    }

    fn type_filter(&mut self, key: KeyCode) -> Wish {
        const LENGTH_MAX: usize = 64;
        self.mode = Mode::Filtering;
        match key {
            KeyCode::Enter => self.mode = Mode::Looking,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Looking;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) if self.filter.chars().count() < LENGTH_MAX => {
                self.filter.push(character)
            }
            _ => {}
        }
        self.selected = 0;
        Wish::Nothing
    }

    fn ask_to_reset(&mut self) {
        let Some(key) = self.keys().nth(self.selected) else {
            return;
        };
        let text = key.text.clone();
        match key.name.clone() {
            Some(name) => self.mode = Mode::Asking { text, name },
            None => self.news = Some(format!("{text} cannot be named by its parts")),
        }
    }

    fn answer(
        &mut self,
        key: KeyCode,
        text: String,
        (limit, parts): (String, Vec<String>),
    ) -> Wish {
        if matches!(key, KeyCode::Char('y' | 'Y')) {
            return Wish::Reset { limit, parts };
        }
        self.news = Some(format!("{text} was left as it is"));
        Wish::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::taken_apart;
    use super::super::seen::tests::moment;
    use super::*;

    fn app() -> App {
        let mut app = App::new("http://127.0.0.1:9090".to_owned(), Order::Denied);
        app.take(Ok(taken_apart(&moment())));
        app
    }

    fn press(app: &mut App, keys: &str) -> Wish {
        keys.chars()
            .map(|key| app.press(KeyCode::Char(key).into()))
            .last()
            .unwrap_or(Wish::Nothing)
    }

    #[test]
    fn a_reset_is_asked_for_first_and_only_yes_is_yes() {
        let mut app = app();
        assert_eq!(press(&mut app, "r"), Wish::Nothing);
        assert!(matches!(app.mode, Mode::Asking { .. }));
        let wanted = Wish::Reset {
            limit: "per-client".to_owned(),
            parts: vec!["203.0.113.7".to_owned()],
        };
        assert_eq!(press(&mut app, "y"), wanted);
        for no in ["n", "q", "r", " "] {
            assert_eq!(press(&mut app, "r"), Wish::Nothing);
            assert_eq!(press(&mut app, no), Wish::Nothing, "{no}");
            assert_eq!(app.mode, Mode::Looking);
        }
    }

    #[test]
    fn the_key_that_was_asked_about_is_reset_whatever_came_meanwhile() {
        let mut app = app();
        press(&mut app, "jr");
        let mut other = taken_apart(&moment());
        other.keys.remove(1);
        app.take(Ok(other));
        let wanted = Wish::Reset {
            limit: "tenant".to_owned(),
            parts: vec!["\u{1b}[2J".to_owned()],
        };
        assert_eq!(press(&mut app, "y"), wanted);
    }

    #[test]
    fn a_key_that_cannot_be_named_is_not_reset() {
        let mut app = app();
        press(&mut app, "jjr");
        assert_eq!(app.mode, Mode::Looking);
        assert!(
            app.news
                .as_ref()
                .is_some_and(|news| news.contains("cannot be named"))
        );
    }

    #[test]
    fn a_filter_is_typed_kept_and_taken_back() {
        let mut app = app();
        assert_eq!(
            press(&mut app, "/tenq"),
            Wish::Nothing,
            "q is a letter here"
        );
        assert_eq!(app.keys().count(), 0);
        app.press(KeyCode::Backspace.into());
        app.press(KeyCode::Enter.into());
        assert_eq!(app.keys().count(), 1);
        press(&mut app, "/");
        app.press(KeyCode::Esc.into());
        assert_eq!(app.keys().count(), 3);
        assert_eq!(press(&mut app, "q"), Wish::Quit);
    }

    #[test]
    fn the_selection_stays_inside_when_keys_go() {
        let mut app = app();
        press(&mut app, "jjjjj");
        assert_eq!(app.selected, 2);
        app.take(Ok(Seen::default()));
        assert_eq!(app.selected, 0);
        assert_eq!(press(&mut app, "r"), Wish::Nothing);
    }

    #[test]
    fn the_old_picture_stays_while_nobody_answers() {
        let mut app = app();
        app.take(Err("no answer".to_owned()));
        assert_eq!(app.seen.keys.len(), 3);
        assert_eq!(app.trouble.as_deref(), Some("no answer"));
        app.take(Ok(Seen::default()));
        assert_eq!(app.trouble, None);
    }

    #[test]
    fn control_and_c_ends_it_in_every_mode() {
        for keys in ["", "/", "r", "?"] {
            let mut app = app();
            press(&mut app, keys);
            assert_eq!(
                app.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
                Wish::Quit,
                "{keys}"
            );
        }
    }
}
