//! The live view without a terminal: what is shown, and what a key press means.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Order;
use super::status::{KeyCounts, StatusReport};

/// Everything that the view shows.
#[derive(Debug)]
pub struct App {
    pub url: String,
    pub status: StatusReport,
    /// Why there is nothing newer, if so.
    pub error: Option<String>,
    pub tab: Tab,
    pub by: Order,
    pub filter: String,
    pub selected: usize,
    pub mode: Mode,
    /// What result of the last order.
    pub notice: Option<String>,
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
    Browse,
    EditFilter,
    /// Whether this key is to be reset; `text` is what was shown.
    ConfirmReset {
        text: String,
        name: (String, Vec<String>),
    },
    Help,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppAction {
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
    pub fn new(url: String, by: Order) -> Self {
        Self {
            url,
            status: StatusReport::default(),
            error: Some("asking…".to_owned()),
            tab: Tab::Keys,
            by,
            filter: String::new(),
            selected: 0,
            mode: Mode::Browse,
            notice: None,
        }
    }

    /// Takes what result, and keeps the old picture when nothing did.
    pub fn update(&mut self, result: Result<StatusReport, String>) {
        match result {
            Ok(status) => {
                self.status = status;
                self.error = None;
            }
            Err(why) => self.error = Some(why),
        }
        self.selected = self.selected.min(self.keys().count().saturating_sub(1));
    }

    /// The keys that the filter lets through.
    pub fn keys(&self) -> impl Iterator<Item = &KeyCounts> {
        self.status
            .keys
            .iter()
            .filter(|key| key.text.contains(&self.filter))
    }

    pub fn press(&mut self, key: KeyEvent) -> AppAction {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return AppAction::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => self.browse(key.code),
            Mode::EditFilter => self.type_filter(key.code),
            Mode::ConfirmReset { text, name } => self.answer(key.code, text, name),
            Mode::Help => AppAction::Nothing,
        }
    }

    fn browse(&mut self, key: KeyCode) -> AppAction {
        let last = self.keys().count().saturating_sub(1);
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return AppAction::Quit,
            KeyCode::Tab => self.tab = self.tab.next(1),
            KeyCode::BackTab => self.tab = self.tab.next(Tab::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Char('/') => self.mode = Mode::EditFilter,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('r') if self.tab == Tab::Keys => self.ask_to_reset(),
            KeyCode::Char('s') => {
                self.by = if self.by == Order::Denied {
                    Order::Requests
                } else {
                    Order::Denied
                };
                return AppAction::Sort;
            }
            _ => {}
        }
        AppAction::Nothing
    }

    fn type_filter(&mut self, key: KeyCode) -> AppAction {
        const LENGTH_MAX: usize = 64;
        self.mode = Mode::EditFilter;
        match key {
            KeyCode::Enter => self.mode = Mode::Browse,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Browse;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) if self.filter.chars().count() < LENGTH_MAX => {
                self.filter.push(character)
            }
            _ => {}
        }
        self.selected = 0;
        AppAction::Nothing
    }

    fn ask_to_reset(&mut self) {
        let Some(key) = self.keys().nth(self.selected) else {
            return;
        };
        let text = key.text.clone();
        match key.name.clone() {
            Some(name) => self.mode = Mode::ConfirmReset { text, name },
            None => self.notice = Some(format!("{text} cannot be named by its parts")),
        }
    }

    fn answer(
        &mut self,
        key: KeyCode,
        text: String,
        (limit, parts): (String, Vec<String>),
    ) -> AppAction {
        if matches!(key, KeyCode::Char('y' | 'Y')) {
            return AppAction::Reset { limit, parts };
        }
        self.notice = Some(format!("{text} was left as it is"));
        AppAction::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::super::status::parse_status;
    use super::super::status::tests::sample_status;
    use super::*;

    fn app() -> App {
        let mut app = App::new("http://127.0.0.1:9090".to_owned(), Order::Denied);
        app.update(Ok(parse_status(&sample_status())));
        app
    }

    fn press(app: &mut App, keys: &str) -> AppAction {
        keys.chars()
            .map(|key| app.press(KeyCode::Char(key).into()))
            .last()
            .unwrap_or(AppAction::Nothing)
    }

    #[test]
    fn a_reset_is_asked_for_first_and_only_yes_is_yes() {
        let mut app = app();
        assert_eq!(press(&mut app, "r"), AppAction::Nothing);
        assert!(matches!(app.mode, Mode::ConfirmReset { .. }));
        let wanted = AppAction::Reset {
            limit: "per-client".to_owned(),
            parts: vec!["203.0.113.7".to_owned()],
        };
        assert_eq!(press(&mut app, "y"), wanted);
        for no in ["n", "q", "r", " "] {
            assert_eq!(press(&mut app, "r"), AppAction::Nothing);
            assert_eq!(press(&mut app, no), AppAction::Nothing, "{no}");
            assert_eq!(app.mode, Mode::Browse);
        }
    }

    #[test]
    fn the_key_that_was_asked_about_is_reset_whatever_came_meanwhile() {
        let mut app = app();
        press(&mut app, "jr");
        let mut other = parse_status(&sample_status());
        other.keys.remove(1);
        app.update(Ok(other));
        let wanted = AppAction::Reset {
            limit: "tenant".to_owned(),
            parts: vec!["\u{1b}[2J".to_owned()],
        };
        assert_eq!(press(&mut app, "y"), wanted);
    }

    #[test]
    fn a_key_that_cannot_be_named_is_not_reset() {
        let mut app = app();
        press(&mut app, "jjr");
        assert_eq!(app.mode, Mode::Browse);
        assert!(
            app.notice
                .as_ref()
                .is_some_and(|notice| notice.contains("cannot be named"))
        );
    }

    #[test]
    fn a_filter_is_typed_kept_and_taken_back() {
        let mut app = app();
        assert_eq!(
            press(&mut app, "/tenq"),
            AppAction::Nothing,
            "q is a letter here"
        );
        assert_eq!(app.keys().count(), 0);
        app.press(KeyCode::Backspace.into());
        app.press(KeyCode::Enter.into());
        assert_eq!(app.keys().count(), 1);
        press(&mut app, "/");
        app.press(KeyCode::Esc.into());
        assert_eq!(app.keys().count(), 3);
        assert_eq!(press(&mut app, "q"), AppAction::Quit);
    }

    #[test]
    fn the_selection_stays_inside_when_keys_go() {
        let mut app = app();
        press(&mut app, "jjjjj");
        assert_eq!(app.selected, 2);
        app.update(Ok(StatusReport::default()));
        assert_eq!(app.selected, 0);
        assert_eq!(press(&mut app, "r"), AppAction::Nothing);
    }

    #[test]
    fn the_old_picture_stays_while_nobody_answers() {
        let mut app = app();
        app.update(Err("no answer".to_owned()));
        assert_eq!(app.status.keys.len(), 3);
        assert_eq!(app.error.as_deref(), Some("no answer"));
        app.update(Ok(StatusReport::default()));
        assert_eq!(app.error, None);
    }

    #[test]
    fn control_and_c_ends_it_in_every_mode() {
        for keys in ["", "/", "r", "?"] {
            let mut app = app();
            press(&mut app, keys);
            assert_eq!(
                app.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
                AppAction::Quit,
                "{keys}"
            );
        }
    }
}
