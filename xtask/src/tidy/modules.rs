//! The modules of a crate form layers: no top-level module reaches itself through others.
//!
//! [`print()`] shows the layers, [`check`] refuses cycles, and both keep the copies in the architecture current.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use crate::command::root;

use super::crate_sources::CrateSources;
use super::module_graph::{Arrow, ModuleGraph};
use super::{Finding, Tree};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Finds cycles of modules, and graphs in the architecture that differ from the code.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let graphs = graphs(tree);
    let mut findings: Vec<Finding> = graphs
        .iter()
        .flat_map(|(name, graph)| cycles(name, graph))
        .collect();
    if let Some(file) = tree.file(ARCHITECTURE) {
        findings.extend(rewritten(&file.text, &graphs).findings);
    }
    findings
}

/// Prints every crate's modules; with `write`, the copies in the architecture are written again.
pub fn print(tree: &Tree, write: bool) -> Result<(), String> {
    let graphs = graphs(tree);
    for (name, graph) in &graphs {
        println!("{name}\n\n{}{}", layers(graph), arrows_in_cycles(graph));
    }
    if !write {
        return Ok(());
    }
    let file = tree
        .file(ARCHITECTURE)
        .ok_or_else(|| format!("{ARCHITECTURE} is missing"))?;
    let text = rewritten(&file.text, &graphs).text;
    fs::write(root().join(ARCHITECTURE), text).map_err(|error| format!("{ARCHITECTURE}: {error}"))
}

fn graphs(tree: &Tree) -> BTreeMap<String, ModuleGraph> {
    let crates = CrateSources::of_workspace(tree);
    let graphs = crates
        .iter()
        .map(|sources| (sources.name.clone(), ModuleGraph::of(sources)));
    graphs.collect()
}

/// One finding for each set of modules that reach each other.
fn cycles(name: &str, graph: &ModuleGraph) -> Vec<Finding> {
    let cyclic_groups = graph.cyclic_groups();
    let findings = cyclic_groups.iter().map(|group| {
        let cycle = shortest_cycle(graph, group);
        let arrows: Vec<String> = cycle.iter().map(|arrow| shown(graph, arrow)).collect();
        let rest = match group.len() - cycle.len() {
            0 => String::new(),
            more => format!(" ({more} more modules hang together with these)"),
        };
        let place = &graph.arrows[&cycle[0]];
        Finding::new(
            &place.path,
            place.line,
            format!("modules of `{name}` in a cycle{rest}: {}", arrows.join(", ")),
            "move what both need into a module below them; `cargo xtask tidy --graph` shows the layers",
        )
    });
    findings.collect()
}

/// The shortest way from a member back to itself, among all members.
fn shortest_cycle(graph: &ModuleGraph, group: &BTreeSet<String>) -> Vec<Arrow> {
    let cycles = group.iter().filter_map(|start| {
        // Breadth first: the first way found to a module is a shortest one.
        let mut ways: Vec<Vec<&str>> = vec![vec![start]];
        let mut seen = BTreeSet::new();
        let mut next = 0;
        while let Some(way) = ways.get(next).cloned() {
            next += 1;
            for to in graph.used_by(way[way.len() - 1]) {
                let longer = || way.iter().copied().chain([to]).collect::<Vec<_>>();
                if to == start {
                    return Some(longer());
                }
                if seen.insert(to) {
                    ways.push(longer());
                }
            }
        }
        None
    });
    let shortest = cycles.min_by_key(Vec::len).unwrap_or_default();
    let arrows = shortest.windows(2).map(|pair| Arrow {
        from: pair[0].to_string(),
        to: pair[1].to_string(),
    });
    arrows.collect()
}

/// `a → b (src/a.rs:3)`
fn shown(graph: &ModuleGraph, arrow: &Arrow) -> String {
    let place = &graph.arrows[arrow];
    format!(
        "{} → {} ({}:{})",
        arrow.from, arrow.to, place.path, place.line
    )
}

/// A line `module → modules it uses` for each module, one paragraph for each layer, the top first. A module uses
/// modules of the paragraphs below it.
fn layers(graph: &ModuleGraph) -> String {
    let mut by_layer: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (module, layer) in layer_of_each(graph) {
        by_layer.entry(layer).or_default().push(module);
    }
    let mut text = String::new();
    for modules in by_layer.values().rev() {
        for module in modules {
            let used: Vec<&str> = graph.used_by(module).collect();
            let arrow = if used.is_empty() { "" } else { " → " };
            let _ = writeln!(text, "{module}{arrow}{}", used.join(", "));
        }
        text.push('\n');
    }
    text
}

/// For each module the length of the longest way down from it. Modules in a cycle are in one layer.
fn layer_of_each(graph: &ModuleGraph) -> BTreeMap<&str, usize> {
    let groups = graph.cyclic_groups();
    let are_beside = |arrow: &Arrow| {
        let holds_both =
            |group: &BTreeSet<String>| group.contains(&arrow.from) && group.contains(&arrow.to);
        groups.iter().any(holds_both)
    };
    let mut layers: BTreeMap<&str, usize> = graph
        .modules
        .iter()
        .map(|module| (module.as_str(), 0))
        .collect();
    // Raises modules above what they use until nothing moves, which ends because the groups form no cycle.
    let mut has_moved = true;
    while has_moved {
        has_moved = false;
        for arrow in graph.arrows.keys() {
            let (from, to) = (layers[arrow.from.as_str()], layers[arrow.to.as_str()]);
            let raised = if are_beside(arrow) { to } else { to + 1 };
            if raised > from {
                layers.insert(&arrow.from, raised);
                has_moved = true;
            }
        }
    }
    layers
}

/// The arrows inside the cycles of a crate, so that somebody can cut them; mostly nothing.
fn arrows_in_cycles(graph: &ModuleGraph) -> String {
    let mut text = String::new();
    for group in graph.cyclic_groups() {
        let inside = |arrow: &&Arrow| group.contains(&arrow.from) && group.contains(&arrow.to);
        for arrow in graph.arrows.keys().filter(inside) {
            let _ = writeln!(text, "in a cycle: {}", shown(graph, arrow));
        }
    }
    text
}

/// The architecture with current graphs, and a finding for each that was not.
struct Rewritten {
    text: String,
    findings: Vec<Finding>,
}

const BEGIN: &str = "<!-- modules:begin ";
const END: &str = "<!-- modules:end -->";

fn rewritten(architecture: &str, graphs: &BTreeMap<String, ModuleGraph>) -> Rewritten {
    let mut text = String::new();
    let mut findings = Vec::new();
    let mut complain = |line: usize, fact: String, way_out: &str| {
        findings.push(Finding::new(ARCHITECTURE, line, fact, way_out));
    };
    let mut lines = (1..).zip(architecture.lines());
    while let Some((number, line)) = lines.next() {
        text += line;
        text.push('\n');
        let name = line
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.strip_suffix(" -->"));
        let Some(name) = name else { continue };
        let mut block = String::new();
        let is_closed = lines.by_ref().any(|(_, line)| {
            let is_end = line == END;
            if !is_end {
                block += line;
                block.push('\n');
            }
            is_end
        });
        if !is_closed {
            complain(number, "a graph of modules without an end".to_string(), END);
        }
        let current = match graphs.get(name) {
            Some(graph) => format!("```text\n{}\n```\n", layers(graph).trim_end()),
            None => {
                complain(
                    number,
                    format!("no crate is called `{name}`"),
                    "correct the name",
                );
                block.clone()
            }
        };
        if is_closed && block != current {
            let fact = format!("the modules of `{name}` are not as in the code");
            complain(number, fact, "run `cargo xtask tidy --graph --write`");
        }
        text += &current;
        text += END;
        text.push('\n');
    }
    Rewritten { text, findings }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const MANIFEST: (&str, &str) = ("x/Cargo.toml", "[package]\nname = \"x\"\n");
    const ROOT: (&str, &str) = ("x/src/lib.rs", "mod a;\nmod b;\nmod c;\n");

    fn graph(files: &[(&str, &str)]) -> ModuleGraph {
        let tree = Tree::of(files);
        graphs(&tree)
            .remove("x")
            .expect("the fixture has this crate")
    }

    #[test]
    fn a_cycle_is_told_with_a_place_for_each_arrow() {
        let files = [
            MANIFEST,
            ROOT,
            ("x/src/a.rs", "use std::fmt;\nuse crate::b::B;\n"),
            ("x/src/b.rs", "fn f() { crate::a::g() }\n"),
            ("x/src/c.rs", "use crate::a::A;\n"),
        ];
        let expected =
            "x/src/a.rs:2: modules of `x` in a cycle: a → b (x/src/a.rs:2), b → a (x/src/b.rs:1)";
        assert_eq!(found(check, &files), [expected]);
    }

    #[test]
    fn the_shortest_cycle_of_a_knot_is_shown_and_the_rest_counted() {
        let files = [
            MANIFEST,
            ROOT,
            ("x/src/a.rs", "use crate::b::B;\n"),
            ("x/src/b.rs", "use crate::c::C;\n"),
            ("x/src/c.rs", "use crate::a::A;\nuse crate::b::B;\n"),
        ];
        let expected = "x/src/b.rs:1: modules of `x` in a cycle (1 more modules hang together with these): \
                        b → c (x/src/b.rs:1), c → b (x/src/c.rs:2)";
        assert_eq!(found(check, &files), [expected]);
    }

    #[test]
    fn children_and_parents_may_know_each_other() {
        let files = [
            MANIFEST,
            ROOT,
            ("x/src/a.rs", "mod inner;\nuse self::inner::I;\n"),
            ("x/src/a/inner.rs", "use super::A;\nuse crate::a::Z;\n"),
        ];
        assert_eq!(found(check, &files), [""; 0]);
    }

    #[test]
    fn layers_are_paragraphs_with_the_top_first() {
        let layered = graph(&[
            MANIFEST,
            ROOT,
            ("x/src/a.rs", "use crate::{b::B, c::C};\n"),
            ("x/src/b.rs", "use crate::c::C;\n"),
            ("x/src/c.rs", ""),
            ("x/src/d.rs", ""),
        ]);
        assert_eq!(layers(&layered), "a → b, c\n\nb → c\n\nc\nd\n\n");
    }

    #[test]
    fn modules_in_a_cycle_are_in_one_layer() {
        let cyclic = graph(&[
            MANIFEST,
            ("x/src/a.rs", "use crate::b::B;\n"),
            ("x/src/b.rs", "use crate::{a::A, c::C};\n"),
            ("x/src/c.rs", ""),
        ]);
        assert_eq!(layers(&cyclic), "a → b\nb → a, c\n\nc\n\n");
        let arrows = "in a cycle: a → b (x/src/a.rs:1)\nin a cycle: b → a (x/src/b.rs:1)\n";
        assert_eq!(arrows_in_cycles(&cyclic), arrows);
    }

    #[test]
    fn graphs_in_the_architecture_are_compared_and_written_again() {
        let files = [
            MANIFEST,
            ("x/src/a.rs", "use crate::b::B;\n"),
            ("x/src/b.rs", ""),
        ];
        let graphs = graphs(&Tree::of(&files));
        let page = |block: &str| {
            format!("# A\n\n<!-- modules:begin x -->\n{block}<!-- modules:end -->\n\nmore\n")
        };
        let current = page("```text\na → b\n\nb\n```\n");
        let outdated = rewritten(&page("```text\na\n```\n"), &graphs);
        assert_eq!(outdated.text, current);
        assert!(
            outdated.findings[0]
                .to_string()
                .starts_with("ARCHITECTURE.md:3: the modules of `x` are not as in the code")
        );
        let unchanged = rewritten(&current, &graphs);
        assert_eq!((unchanged.text, unchanged.findings), (current, Vec::new()));
        let unknown = rewritten(&page("").replace("begin x", "begin y"), &graphs);
        assert!(
            unknown.findings[0]
                .to_string()
                .contains("no crate is called `y`")
        );
        let open = rewritten("<!-- modules:begin x -->\n", &graphs);
        assert!(open.findings[0].to_string().contains("without an end"));
    }

    #[test]
    fn the_architecture_itself_is_looked_at() {
        let page = "<!-- modules:begin x -->\n<!-- modules:end -->\n";
        let files = [MANIFEST, ("x/src/a.rs", ""), (ARCHITECTURE, page)];
        let expected = "ARCHITECTURE.md:1: the modules of `x` are not as in the code";
        assert_eq!(found(check, &files), [expected]);
    }
}
