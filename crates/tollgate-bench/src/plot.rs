//! A picture of the cost per decision: bars by load on a logarithmic scale.

use std::fmt::Write;

use crate::contestants::Who;
use crate::keys::KeyKind;
use crate::loads::Answer;
use crate::results::{Cell, Results};

/// The figures with one thread and allowed, by address; throttlecrab by text, which is all it takes.
pub fn svg(results: &Results) -> String {
    draw(&groups(results))
}

/// The bars of one load.
struct Group {
    load: &'static str,
    bars: Vec<Bar>,
}

struct Bar {
    who: Who,
    ns: f64,
}

/// In the order of the bars and of the legend.
const SHOWN: [Who; 5] = [Who::Tollgate, Who::Governor, Who::Throttlecrab, Who::Pingora, Who::MutexMap];

fn groups(results: &Results) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for row in results.rows.iter().filter(|row| row.threads == 1 && row.answer == Answer::Allowed) {
        let is_shown = |cell: &&Cell| SHOWN.contains(&cell.who) && key_of(cell.who) == row.key;
        let bars = row.cells.iter().filter(is_shown).map(|cell| Bar { who: cell.who, ns: cell.cpu_ns() });
        match groups.iter_mut().find(|group| group.load == row.load) {
            Some(group) => group.bars.extend(bars),
            None => groups.push(Group { load: row.load, bars: bars.collect() }),
        }
    }
    for group in &mut groups {
        group.bars.sort_by_key(|bar| SHOWN.iter().position(|who| *who == bar.who));
    }
    groups
}

fn key_of(who: Who) -> KeyKind {
    if who == Who::Throttlecrab { KeyKind::String } else { KeyKind::IpAddr }
}

/// A colour that stands out from white and from black.
fn colour(who: Who) -> &'static str {
    match who {
        Who::Tollgate => "#12a37f",
        Who::Governor => "#4f83cc",
        Who::Throttlecrab => "#d9792b",
        Who::Pingora => "#9b72c7",
        Who::MutexMap | Who::FullPath => "#8a9099",
    }
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 372.0;

/// Text and lines follow the reader's theme; the background is the page's.
const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.value { font-size: 10px; text-anchor: middle }
.load { text-anchor: middle }
.tick { text-anchor: end; fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.tick { fill: #9198a1 }
.grid { stroke: #3d444d }
}
";

fn draw(groups: &[Group]) -> String {
    let scale = Scale::around(groups.iter().flat_map(|group| group.bars.iter().map(|bar| bar.ns)));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>Processor time per decision in ns, by load and contestant</title>\n<style>\n{STYLE}</style>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"22\">ns per decision (processor time, one thread, allowed; logarithmic)</text>\n"
    );
    draw_legend(&mut svg);
    for tick in scale.ticks() {
        let y = scale.y(tick);
        push(&mut svg, format_args!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"));
        push(&mut svg, format_args!("<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{tick}</text>", LEFT - 8.0, y + 4.0));
    }
    let group_width = (WIDTH - LEFT) / groups.len().max(1) as f64;
    for (place, group) in groups.iter().enumerate() {
        draw_group(&mut svg, group, LEFT + place as f64 * group_width, group_width, &scale);
    }
    svg + "</svg>\n"
}

fn draw_legend(svg: &mut String) {
    for (place, who) in SHOWN.into_iter().enumerate() {
        let x = LEFT + place as f64 * 175.0;
        let name = escaped(who.name());
        let note = match who {
            Who::Throttlecrab => " (text keys)",
            Who::Pingora => " (sketch)",
            _ => "",
        };
        push(svg, format_args!("<rect x=\"{x}\" y=\"36\" width=\"11\" height=\"11\" fill=\"{}\"/>", colour(who)));
        push(svg, format_args!("<text x=\"{}\" y=\"46\">{name}{note}</text>", x + 16.0));
    }
}

fn draw_group(svg: &mut String, group: &Group, left: f64, width: f64, scale: &Scale) {
    let bar_width = (width - 16.0) / SHOWN.len() as f64;
    for (place, bar) in group.bars.iter().enumerate() {
        let (x, y) = (left + 8.0 + place as f64 * bar_width, scale.y(bar.ns));
        let (wide, high) = (bar_width - 2.0, BOTTOM - y);
        let title = format!("{}, {}: {:.1} ns", escaped(bar.who.name()), escaped(group.load), bar.ns);
        push(
            svg,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"{}\"><title>{title}</title></rect>",
                colour(bar.who)
            ),
        );
        let middle = x + wide / 2.0;
        push(svg, format_args!("<text class=\"value\" x=\"{middle:.1}\" y=\"{:.1}\">{:.0}</text>", y - 4.0, bar.ns));
    }
    let middle = left + width / 2.0;
    push(
        svg,
        format_args!(
            "<text class=\"load\" x=\"{middle:.1}\" y=\"{:.1}\">{}</text>",
            BOTTOM + 20.0,
            escaped(group.load)
        ),
    );
}

fn push(svg: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(svg, "{line}").expect("writing to a string never fails");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Maps ns to a height, a decade always being as tall.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Whole ticks around all values, so that the lowest bar still has a height.
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)));
        if low > high {
            return Self { low: 1.0, high: 1_000.0 };
        }
        let low = steps().rev().find(|step| *step <= low * 0.7).unwrap_or(1.0);
        Self { low, high: steps().find(|step| *step >= high * 1.1).unwrap_or(high * 1.1) }
    }

    fn y(&self, ns: f64) -> f64 {
        let share = (ns.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        BOTTOM - share * (BOTTOM - TOP)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        steps().filter(|step| (self.low..=self.high).contains(step))
    }
}

/// 1, 2, 5, 10, 20, 50 and so on to half a second.
fn steps() -> impl DoubleEndedIterator<Item = f64> {
    (0..9).flat_map(|decade| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(decade)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<Group> {
        let bars = |factor: f64| SHOWN.iter().map(|who| Bar { who: *who, ns: factor * 7.0 }).collect();
        vec![Group { load: "1 hot key", bars: bars(1.0) }, Group { load: "<10 M> & more", bars: bars(90.0) }]
    }

    /// Every tag that is opened is closed, in order.
    fn is_well_formed(svg: &str) -> bool {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1).filter_map(|part| Some(part.split_once('>')?.0)) {
            let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap_or_default();
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => {
                    if open.pop() != Some(name) {
                        return false;
                    }
                }
                (false, true) => {}
                (false, false) => open.push(name),
            }
        }
        open.is_empty()
    }

    #[test]
    fn the_picture_is_well_formed() {
        assert!(is_well_formed(&draw(&example())));
        assert!(is_well_formed(&draw(&[])));
        assert!(!is_well_formed("<a><b></a></b>"));
    }

    #[test]
    fn names_are_escaped() {
        let svg = draw(&example());
        assert!(svg.contains("Mutex&lt;HashMap&gt;"));
        assert!(svg.contains("&lt;10 M&gt; &amp; more"));
    }

    #[test]
    fn a_decade_is_always_as_tall() {
        let scale = Scale { low: 1.0, high: 1_000.0 };
        let heights = [scale.y(1.0) - scale.y(10.0), scale.y(10.0) - scale.y(100.0)];
        assert!((heights[0] - heights[1]).abs() < 1e-9);
        assert!((scale.y(1.0) - BOTTOM).abs() < 1e-9 && (scale.y(1_000.0) - TOP).abs() < 1e-9);
    }

    #[test]
    fn the_scale_leaves_room_below_and_above() {
        let scale = Scale::around([9.0, 480.0].into_iter());
        assert_eq!((scale.low, scale.high), (5.0, 1_000.0));
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0]);
    }
}
