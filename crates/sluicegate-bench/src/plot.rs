//! A picture of what something costs: bars by load on a logarithmic scale.

use std::fmt::Write;

/// A chart of bars, in groups.
pub struct Chart {
    pub title: &'static str,
    /// For readers who do not see the picture.
    pub description: &'static str,
    pub unit: ChartUnit,
    /// In the order of the bars and of the legend.
    pub series: Vec<ChartSeries>,
    pub groups: Vec<BarGroup>,
}

/// The unit of the bars.
#[derive(Clone, Copy)]
pub enum ChartUnit {
    Nanoseconds,
    Microseconds,
}

/// One contestant.
pub struct ChartSeries {
    pub name: &'static str,
    /// Follows the name in the legend.
    pub note: &'static str,
    /// Stands out from white and from black.
    pub colour: &'static str,
}

/// The bars of one load.
pub struct BarGroup {
    pub name: String,
    pub bars: Vec<Bar>,
}

pub struct Bar {
    /// The place of its contestant in the series.
    pub series: usize,
    pub value: f64,
}

impl Chart {
    pub fn svg(&self) -> String {
        let values = self
            .groups
            .iter()
            .flat_map(|group| group.bars.iter().map(|bar| bar.value));
        let scale = ChartScale::around(values);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n<text class=\"title\" x=\"{LEFT}\" y=\"22\">{}</text>\n",
            escaped(self.description),
            escaped(self.title)
        );
        self.draw_legend(&mut svg);
        draw_grid(&mut svg, &scale);
        let group_width = (WIDTH - LEFT) / self.groups.len().max(1) as f64;
        for (place, group) in self.groups.iter().enumerate() {
            self.draw_group(
                &mut svg,
                group,
                LEFT + place as f64 * group_width,
                group_width,
                &scale,
            );
        }
        svg + "</svg>\n"
    }

    fn draw_legend(&self, svg: &mut String) {
        for (place, ChartSeries { name, note, colour }) in self.series.iter().enumerate() {
            let x = LEFT + place as f64 * 175.0;
            push(
                svg,
                format_args!(
                    "<rect x=\"{x}\" y=\"36\" width=\"11\" height=\"11\" fill=\"{colour}\"/>"
                ),
            );
            push(
                svg,
                format_args!(
                    "<text x=\"{}\" y=\"46\">{}{}</text>",
                    x + 16.0,
                    escaped(name),
                    escaped(note)
                ),
            );
        }
    }

    fn draw_group(
        &self,
        svg: &mut String,
        group: &BarGroup,
        left: f64,
        width: f64,
        scale: &ChartScale,
    ) {
        let bar_width = (width - 16.0) / self.series.len() as f64;
        for (place, bar) in group.bars.iter().enumerate() {
            let ChartSeries { name, colour, .. } = &self.series[bar.series];
            let (x, y) = (left + 8.0 + place as f64 * bar_width, scale.y(bar.value));
            let (wide, high) = (bar_width - 2.0, BOTTOM - y);
            let unit = self.unit.name();
            let title = format!(
                "{}, {}: {:.1} {unit}",
                escaped(name),
                escaped(&group.name),
                bar.value
            );
            push(
                svg,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"{colour}\"><title>{title}</title></rect>"
                ),
            );
            let (middle, above) = (x + wide / 2.0, y - 4.0);
            let number = self.unit.rounded(bar.value);
            push(
                svg,
                format_args!(
                    "<text class=\"value\" x=\"{middle:.1}\" y=\"{above:.1}\">{number}</text>"
                ),
            );
        }
        let (middle, below, name) = (left + width / 2.0, BOTTOM + 20.0, escaped(&group.name));
        push(
            svg,
            format_args!("<text class=\"load\" x=\"{middle:.1}\" y=\"{below:.1}\">{name}</text>"),
        );
    }
}

impl ChartUnit {
    const fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
        }
    }

    /// As it stands above a bar, where there is little room.
    fn rounded(self, value: f64) -> String {
        match self {
            Self::Microseconds if value < 100.0 => format!("{value:.1}"),
            Self::Microseconds | Self::Nanoseconds => format!("{value:.0}"),
        }
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

fn draw_grid(svg: &mut String, scale: &ChartScale) {
    for tick in scale.ticks() {
        let y = scale.y(tick);
        push(
            svg,
            format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            ),
        );
        push(
            svg,
            format_args!(
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{tick}</text>",
                LEFT - 8.0,
                y + 4.0
            ),
        );
    }
}

fn push(svg: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(svg, "{line}").expect("writing to a string never fails");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Maps a value to a height, a decade always being as tall.
struct ChartScale {
    low: f64,
    high: f64,
}

impl ChartScale {
    /// Whole ticks around all values, so that the lowest bar still has a height.
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((f64::INFINITY, 0.0), |(low, high), value| {
            (value.min(low), value.max(high))
        });
        if low > high {
            return Self {
                low: 1.0,
                high: 1_000.0,
            };
        }
        let low = steps().rev().find(|step| *step <= low * 0.7).unwrap_or(1.0);
        Self {
            low,
            high: steps()
                .find(|step| *step >= high * 1.1)
                .unwrap_or(high * 1.1),
        }
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
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

    fn example() -> Chart {
        let series = ["a", "Mutex<HashMap>"].map(|name| ChartSeries {
            name,
            note: "",
            colour: "#12a37f",
        });
        let group = |name: &str, factor: f64| {
            let bars = (0..2)
                .map(|series| Bar {
                    series,
                    value: factor * 7.0,
                })
                .collect();
            BarGroup {
                name: name.to_string(),
                bars,
            }
        };
        let groups = vec![group("1 hot key", 1.0), group("<10 M> & more", 90.0)];
        Chart {
            title: "ns",
            description: "by load",
            unit: ChartUnit::Nanoseconds,
            series: series.into(),
            groups,
        }
    }

    /// Every tag that is opened is closed, in order.
    fn is_well_formed(svg: &str) -> bool {
        let mut open = Vec::new();
        for tag in svg
            .split('<')
            .skip(1)
            .filter_map(|part| Some(part.split_once('>')?.0))
        {
            let name = tag
                .split([' ', '/'])
                .find(|word| !word.is_empty())
                .unwrap_or_default();
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
        assert!(is_well_formed(&example().svg()));
        assert!(is_well_formed(
            &Chart {
                groups: Vec::new(),
                ..example()
            }
            .svg()
        ));
        assert!(!is_well_formed("<a><b></a></b>"));
    }

    #[test]
    fn names_are_escaped() {
        let svg = example().svg();
        assert!(svg.contains("Mutex&lt;HashMap&gt;"));
        assert!(svg.contains("&lt;10 M&gt; &amp; more"));
    }

    #[test]
    fn microseconds_keep_a_digit_where_there_is_room() {
        assert_eq!(ChartUnit::Microseconds.rounded(18.46), "18.5");
        assert_eq!(ChartUnit::Microseconds.rounded(337.2), "337");
        assert_eq!(ChartUnit::Nanoseconds.rounded(18.46), "18");
    }

    #[test]
    fn a_decade_is_always_as_tall() {
        let scale = ChartScale {
            low: 1.0,
            high: 1_000.0,
        };
        let heights = [scale.y(1.0) - scale.y(10.0), scale.y(10.0) - scale.y(100.0)];
        assert!((heights[0] - heights[1]).abs() < 1e-9);
        assert!((scale.y(1.0) - BOTTOM).abs() < 1e-9 && (scale.y(1_000.0) - TOP).abs() < 1e-9);
    }

    #[test]
    fn the_scale_leaves_room_below_and_above() {
        let scale = ChartScale::around([9.0, 480.0].into_iter());
        assert_eq!((scale.low, scale.high), (5.0, 1_000.0));
        assert_eq!(
            scale.ticks().collect::<Vec<_>>(),
            [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0]
        );
    }
}
