//! Draws the live view with ratatui. Reads [`App`], changes nothing.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, TableState};

use super::app::{App, Mode, Tab};
use super::status::rate;

/// Draws the whole screen; works for every size of a terminal.
pub fn draw(app: &App, frame: &mut Frame) {
    let areas = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(4),
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(1),
    ]);
    let [head, traffic, tabs, body, foot] = areas.areas(frame.area());
    frame.render_widget(Paragraph::new(headline(app)), head);
    draw_traffic(app, frame, traffic);
    frame.render_widget(Paragraph::new(tab_line(app)), tabs);
    match app.tab {
        Tab::Keys => draw_keys(app, frame, body),
        Tab::Limits => draw_limits(app, frame, body),
        Tab::Orders => draw_orders(app, frame, body),
    }
    frame.render_widget(Paragraph::new(footline(app)), foot);
    if app.mode == Mode::Help {
        draw_help(frame);
    }
}

/// Colours of the whole view: green for allowed, red for denied, grey for labels.
const ALLOWED: Style = Style::new().fg(Color::Green);
const DENIED: Style = Style::new().fg(Color::LightRed);
const QUIET: Style = Style::new().fg(Color::DarkGray);

/// Health, configuration and store, in two lines.
fn headline(app: &App) -> Vec<Line<'_>> {
    let state = match (&app.error, app.status.is_degraded) {
        (Some(_), _) => Span::styled("● no response", DENIED),
        (None, true) => Span::styled("● store degraded", DENIED),
        (None, false) => Span::styled("● healthy", ALLOWED),
    };
    let facts = format!(
        "  config {}  {}  {}",
        app.status.config,
        plural(app.status.replicas as u64, "replica"),
        plural(app.status.connections, "connection")
    );
    let store = match &app.error {
        Some(error) => Span::styled(error.as_str(), DENIED),
        None => Span::styled(format!("store {}", app.status.store), QUIET),
    };
    vec![
        Line::from(vec![
            "sluicegate ".bold(),
            app.url.as_str().into(),
            "  ".into(),
            state,
            facts.into(),
        ]),
        Line::from(store),
    ]
}

/// Allowed and denied requests per second as bars, the newest at the right end.
fn draw_traffic(app: &App, frame: &mut Frame, area: Rect) {
    let rows = Layout::vertical([Constraint::Length(2), Constraint::Length(2)]).areas::<2>(area);
    let series = [
        ("allowed/s", &app.status.allowed, ALLOWED),
        ("denied/s", &app.status.denied, DENIED),
    ];
    for ((name, values, style), row) in series.into_iter().zip(rows) {
        let [label, line] =
            Layout::horizontal([Constraint::Length(12), Constraint::Min(1)]).areas(row);
        let figure = Line::styled(rate(values).to_string(), style.add_modifier(Modifier::BOLD));
        frame.render_widget(
            Paragraph::new(vec![Line::styled(name, QUIET), figure]),
            label,
        );
        // One column per second: the newest values that fit, moved to the right end.
        let shown = &values[values.len().saturating_sub(usize::from(line.width))..];
        let empty = usize::from(line.width) - shown.len();
        let padded = std::iter::repeat_n(0, empty).chain(shown.iter().copied());
        frame.render_widget(
            Sparkline::default()
                .data(padded.collect::<Vec<u64>>())
                .style(style),
            line,
        );
    }
}

/// Names of the tabs, the current one reversed, and the filter.
fn tab_line(app: &App) -> Line<'_> {
    let tabs = Tab::ALL.iter().flat_map(|tab| {
        let name = match tab {
            Tab::Keys => format!(" keys by {} ", app.by.name()),
            Tab::Limits => " limits ".to_owned(),
            Tab::Orders => format!(" bans and overrides ({}) ", app.status.orders.len()),
        };
        [
            if *tab == app.tab {
                name.reversed()
            } else {
                name.into()
            },
            " ".into(),
        ]
    });
    let filter = match (&app.mode, app.filter.as_str()) {
        (Mode::EditFilter, filter) => Span::from(format!("  /{filter}▏")),
        (_, "") => Span::from(""),
        (_, filter) => Span::styled(format!("  /{filter}"), QUIET),
    };
    tabs.chain([filter]).collect()
}

/// The keys that match the filter, with the selected one reversed.
fn draw_keys(app: &App, frame: &mut Frame, area: Rect) {
    let rows = app.keys().map(|key| {
        let denied = Cell::from(Line::from(key.denied.to_string()).right_aligned());
        let denied = if key.denied > 0 {
            denied.style(DENIED)
        } else {
            denied
        };
        Row::new([
            Cell::from(key.text.as_str()),
            Cell::from(Line::from(key.requests.to_string()).right_aligned()),
            denied,
        ])
    });
    let widths = [
        Constraint::Min(20),
        Constraint::Length(12),
        Constraint::Length(12),
    ];
    let table = Table::new(rows, widths)
        .header(header(&["key", "requests", "denied"], 1))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(app.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

/// One row per limit: its current rates, and its denials as bars.
fn draw_limits(app: &App, frame: &mut Frame, area: Rect) {
    const BARS: u16 = 40;
    let right = |values: &[u64]| Line::from(rate(values).to_string()).right_aligned();
    let rows = app.status.limits.iter().map(|limit| {
        Row::new([
            Cell::from(limit.name.as_str()),
            Cell::from(limit.mode.as_str()),
            Cell::from(right(&limit.allowed)).style(ALLOWED),
            Cell::from(right(&limit.denied)).style(DENIED),
            Cell::from(bars(&limit.denied, usize::from(BARS))).style(DENIED),
        ])
    });
    let widths = [
        Constraint::Min(16),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(BARS),
    ];
    let table = Table::new(rows, widths).header(header(
        &[
            "limit",
            "mode",
            "allowed/s",
            "denied/s",
            "denied, last seconds",
        ],
        2,
    ));
    frame.render_widget(table, area);
}

/// A line of bars, the newest at the right end.
fn bars(values: &[u64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().copied().max().unwrap_or(0).max(1);
    let bar = |value: &u64| {
        if *value == 0 {
            ' '
        } else {
            BARS[(u128::from(*value) * 7 / u128::from(most)) as usize]
        }
    };
    shown.iter().map(bar).collect()
}

/// Column names; columns from `numbers_from` on hold numbers and are aligned to the right.
fn header<'a>(names: &[&'a str], numbers_from: usize) -> Row<'a> {
    let cells = names.iter().enumerate().map(|(at, name)| {
        let is_number = at >= numbers_from && *name != "denied, last seconds";
        Cell::from(if is_number {
            Line::from(*name).right_aligned()
        } else {
            Line::from(*name)
        })
    });
    Row::new(cells.collect::<Vec<_>>()).style(QUIET)
}

/// Bans and overrides in force, one line each.
fn draw_orders(app: &App, frame: &mut Frame, area: Rect) {
    let lines: Vec<Line> = match app.status.orders.as_slice() {
        [] => vec![Line::styled("no bans and no overrides", QUIET)],
        orders => orders
            .iter()
            .map(|order| Line::from(order.as_str()))
            .collect(),
    };
    frame.render_widget(Paragraph::new(lines), area);
}

/// `1 replica`, `2 replicas`.
fn plural(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The question, the last notice, or the most useful keys.
fn footline(app: &App) -> Line<'_> {
    match (&app.mode, &app.notice) {
        (Mode::ConfirmReset { text, .. }, _) => {
            Line::from(format!("reset {text}? y resets it, any other key cancels")).reversed()
        }
        (Mode::EditFilter, _) => Line::styled("enter keeps the filter, esc clears it", QUIET),
        (_, Some(news)) => Line::from(news.as_str()),
        _ => Line::styled(
            "q quit  tab next page  / filter  s sort  r reset  ? help",
            QUIET,
        ),
    }
}

/// The list of keys, in a box over the middle of the screen.
fn draw_help(frame: &mut Frame) {
    let lines = [
        "q, esc      quit",
        "tab         next page: keys, limits, bans and overrides",
        "up, down    select a key (also k, j)",
        "/           show only keys that contain a text",
        "s           sort by denials or by requests",
        "r           reset the selected key, after a question",
        "",
        "any key closes this help",
    ];
    let area = frame
        .area()
        .centered(Constraint::Length(58), Constraint::Length(10))
        .intersection(frame.area());
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(lines.map(Line::from).to_vec()).block(Block::bordered().title(" keys ")),
        area,
    );
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::Order;
    use super::super::status::parse_status;
    use super::super::status::tests::sample_status;
    use super::*;

    fn screen(app: &App, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(app, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n")
            .collect()
    }

    fn app() -> App {
        let mut app = App::new("http://127.0.0.1:9090".to_owned(), Order::Denied);
        app.update(Ok(parse_status(&sample_status())));
        app
    }

    #[test]
    fn the_view_shows_state_rates_and_the_denied_key_first() {
        let screen = screen(&app(), 100, 24);
        for words in [
            "store degraded",
            "version 3 (9c41f7d2)",
            "2 replicas",
            "allowed/s",
            "down: 127.0.0.1:6379",
            "█",
        ] {
            assert!(screen.contains(words), "{words} in\n{screen}");
        }
        let first = screen
            .lines()
            .position(|line| line.contains("203.0.113.7"))
            .unwrap();
        let second = screen
            .lines()
            .position(|line| line.contains("tenant:"))
            .unwrap();
        assert!(first < second, "{screen}");
        assert!(!screen.contains('\u{1b}'), "nothing acts");
    }

    #[test]
    fn every_tab_and_every_question_is_drawn() {
        let mut app = app();
        app.tab = Tab::Limits;
        assert!(screen(&app, 100, 24).contains("sign-in"));
        app.tab = Tab::Orders;
        assert!(screen(&app, 100, 24).contains("by ann: scraping"));
        app.mode = Mode::ConfirmReset {
            text: "x".to_owned(),
            name: ("x".to_owned(), Vec::new()),
        };
        assert!(screen(&app, 100, 24).contains("reset x? y resets it"));
        app.mode = Mode::Help;
        assert!(screen(&app, 100, 24).contains("any key closes this help"));
        app.update(Err("http://127.0.0.1:9090: connection refused".to_owned()));
        assert!(screen(&app, 100, 24).contains("connection refused"));
    }

    #[test]
    fn bars_are_as_high_as_the_highest_and_never_too_wide() {
        assert_eq!(bars(&[0, 1, 4, 8], 10), " ▁▄█");
        assert_eq!(bars(&[1, 2, 3, 4], 2), "▆█");
        assert_eq!(bars(&[u64::MAX, 0], 9), "█ ");
    }

    #[test]
    fn no_size_of_a_terminal_is_too_small_to_be_drawn_on() {
        for (width, height) in [(1, 1), (3, 50), (200, 2), (20, 9), (12, 12)] {
            for mode in [Mode::Browse, Mode::Help, Mode::EditFilter] {
                let mut app = app();
                app.mode = mode;
                screen(&app, width, height);
            }
        }
    }
}
