//! State of the live view, and the meaning of each key press. Knows no terminal and no network, so tests
//! drive it directly.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Order;
use super::status::{KeyCounts, StatusReport};

/// Everything that the view shows; `draw` only reads it.
#[derive(Debug)]
pub struct App {
    /// Address of the admin API, shown in the first line.
    pub url: String,
    /// The last good response; kept while requests fail.
    pub status: StatusReport,
    /// Error of the last request; `None` while all is well.
    pub error: Option<String>,
    pub tab: Tab,
    /// Sort order of the keys.
    pub by: Order,
    /// Only keys that contain this text are shown; empty shows all.
    pub filter: String,
    /// Row of the selected key among the shown ones.
    pub selected: usize,
    pub mode: Mode,
    /// Result of the last action, shown in the bottom line.
    pub notice: Option<String>,
}

/// Page of the lower half. [`Tab::Orders`] lists bans and overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Keys,
    Limits,
    Orders,
}

impl Tab {
    pub const ALL: [Self; 3] = [Self::Keys, Self::Limits, Self::Orders];

    /// The tab so many steps to the right, around the end.
    fn next(self, steps: usize) -> Self {
        let at = Self::ALL.iter().position(|tab| *tab == self).unwrap_or(0);
        Self::ALL[(at + steps) % Self::ALL.len()]
    }
}

/// Meaning of the next key press.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Moves, sorts, switches tabs.
    Browse,
    /// Types into the filter.
    EditFilter,
    /// Confirms the reset of this key, or anything else to keep it. `text` is the key as it was shown.
    ConfirmReset {
        text: String,
        name: (String, Vec<String>),
    },
    /// Closes the help.
    Help,
}

/// Action that a key press asks of the terminal loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppAction {
    /// Nothing beyond drawing again.
    Nothing,
    /// Restore the terminal and exit.
    Quit,
    /// Fetch the keys in the new order.
    Sort,
    /// Reset the counter with this limit and these key parts.
    Reset { limit: String, parts: Vec<String> },
}

impl App {
    /// A view before the first response.
    pub fn new(url: String, by: Order) -> Self {
        Self {
            url,
            status: StatusReport::default(),
            error: Some("connecting…".to_owned()),
            tab: Tab::Keys,
            by,
            filter: String::new(),
            selected: 0,
            mode: Mode::Browse,
            notice: None,
        }
    }

    /// Stores a response. After an error the old numbers stay, beside the error.
    pub fn update(&mut self, result: Result<StatusReport, String>) {
        match result {
            Ok(status) => {
                self.status = status;
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
        // Fewer keys than before: the selection must stay inside.
        self.selected = self.selected.min(self.keys().count().saturating_sub(1));
    }

    /// Keys that match the filter.
    pub fn keys(&self) -> impl Iterator<Item = &KeyCounts> {
        self.status
            .keys
            .iter()
            .filter(|key| key.text.contains(&self.filter))
    }

    /// Handles a key press. Ctrl-C quits in every mode.
    pub fn press(&mut self, key: KeyEvent) -> AppAction {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return AppAction::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => self.browse(key.code),
            Mode::EditFilter => self.type_filter(key.code),
            Mode::ConfirmReset { text, name } => self.confirm_reset(key.code, text, name),
            Mode::Help => AppAction::Nothing,
        }
    }

    /// Moves the selection, switches tabs and opens the other modes.
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

    /// Enter keeps the filter, Esc clears it.
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

    /// Keeps the name of the selected key, so that a refresh in between does not change the target.
    fn ask_to_reset(&mut self) {
        let Some(key) = self.keys().nth(self.selected) else {
            return;
        };
        let text = key.text.clone();
        match key.name.clone() {
            Some(name) => self.mode = Mode::ConfirmReset { text, name },
            None => {
                self.notice = Some(format!(
                    "{text} cannot be reset: its key has no parts to name it by"
                ))
            }
        }
    }

    /// Only `y` resets: a mistyped key must not change anything.
    fn confirm_reset(
        &mut self,
        key: KeyCode,
        text: String,
        (limit, parts): (String, Vec<String>),
    ) -> AppAction {
        if matches!(key, KeyCode::Char('y' | 'Y')) {
            return AppAction::Reset { limit, parts };
        }
        self.notice = Some(format!("{text} was not reset"));
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
    fn a_reset_needs_confirmation_and_only_y_confirms() {
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
    fn the_key_in_the_question_is_reset_even_after_a_refresh() {
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
    fn a_key_without_a_name_is_not_reset() {
        let mut app = app();
        press(&mut app, "jjr");
        assert_eq!(app.mode, Mode::Browse);
        assert!(
            app.notice
                .as_ref()
                .is_some_and(|notice| notice.contains("cannot be reset"))
        );
    }

    #[test]
    fn a_filter_is_typed_kept_and_cleared() {
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
    fn the_old_numbers_stay_while_requests_fail() {
        let mut app = app();
        app.update(Err("no response".to_owned()));
        assert_eq!(app.status.keys.len(), 3);
        assert_eq!(app.error.as_deref(), Some("no response"));
        app.update(Ok(StatusReport::default()));
        assert_eq!(app.error, None);
    }

    #[test]
    fn ctrl_c_quits_in_every_mode() {
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
