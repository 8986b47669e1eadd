//! Which top-level module of a crate uses which: the arrows, and one line of code that makes each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::crate_sources::CrateSources;
use super::module_paths::{CodePath, PathContext, paths};
use super::rust_source::{RustSource, RustToken};

/// The modules that lie directly in the root of a crate, and the arrows between them.
///
/// The root file is a module of its own, under its file name, as far as it holds code: `mod` lines and
/// re-exports make no arrow from it, and a name that it re-exports leads to the module where it is defined.
/// Programs in `src/bin` are crates of their own and are left out, and so is test code.
pub struct ModuleGraph {
    pub modules: BTreeSet<String>,
    pub arrows: BTreeMap<Arrow, Place>,
}

/// `from` uses something of `to`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    pub from: String,
    pub to: String,
}

/// A line that makes an arrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub path: String,
    pub line: usize,
}

impl ModuleGraph {
    pub fn of(sources: &CrateSources<'_>) -> Self {
        let files: Vec<ModuleFile> = sources
            .sources
            .iter()
            .filter_map(|source| ModuleFile::new(source, sources.path_in_src(source)))
            .collect();
        let root = CrateRoot::of(&files);
        let mut arrows = BTreeMap::new();
        for file in &files {
            for (arrow, place) in file.arrows(&root) {
                arrows.entry(arrow).or_insert(place);
            }
        }
        let mut modules = root.modules;
        modules.extend(arrows.keys().map(|arrow| arrow.from.clone()));
        Self { modules, arrows }
    }

    /// The modules that this one uses.
    pub fn used_by(&self, module: &str) -> impl Iterator<Item = &str> {
        let arrows = self.arrows.keys().filter(move |arrow| arrow.from == module);
        arrows.map(|arrow| arrow.to.as_str())
    }

    /// Every module that can be reached from this one, itself only if there is a way back.
    pub fn reached_from(&self, module: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut left: Vec<&str> = self.used_by(module).collect();
        while let Some(next) = left.pop() {
            if reached.insert(next) {
                left.extend(self.used_by(next));
            }
        }
        reached
    }

    /// Sets of modules that all reach each other, each with at least two members.
    pub fn cyclic_groups(&self) -> Vec<BTreeSet<String>> {
        let mut cyclic_groups: Vec<BTreeSet<String>> = Vec::new();
        for module in &self.modules {
            if cyclic_groups.iter().any(|group| group.contains(module)) {
                continue;
            }
            let reached = self.reached_from(module);
            let group: BTreeSet<String> = reached
                .iter()
                .filter(|other| self.reached_from(other).contains(module.as_str()))
                .map(|other| (*other).to_string())
                .collect();
            if !group.is_empty() {
                cyclic_groups.push(group);
            }
        }
        cyclic_groups
    }
}

/// One file, its tokens, and where in the tree of modules it stands.
struct ModuleFile<'a> {
    source: &'a RustSource,
    tokens: Vec<RustToken<'a>>,
    /// Names from the root of the crate down; empty for the root file.
    module: Vec<String>,
    file_name: String,
}

impl<'a> ModuleFile<'a> {
    /// `None` for a program of its own in `src/bin`.
    fn new(source: &'a RustSource, path_in_src: &str) -> Option<Self> {
        if path_in_src.starts_with("bin/") {
            return None;
        }
        let mut module: Vec<String> = path_in_src
            .trim_end_matches(".rs")
            .split('/')
            .map(str::to_string)
            .collect();
        let is_root = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
        if is_root || module.last().is_some_and(|name| name == "mod") {
            module.pop();
        }
        Some(Self {
            tokens: source.tokens().collect(),
            source,
            module,
            file_name: path_in_src.to_string(),
        })
    }

    fn arrows(&self, root: &CrateRoot) -> Vec<(Arrow, Place)> {
        let inline = self.inline_modules();
        let mut arrows = Vec::new();
        for path in paths(&self.tokens) {
            let mut module = self.module.clone();
            let around = inline.iter().filter(|(_, range)| range.contains(&path.at));
            module.extend(around.map(|(name, _)| name.clone()));
            let Some(to) = root.top_level(&path, &module) else {
                continue;
            };
            let from = match module.first() {
                Some(top_level) => top_level.clone(),
                None if path.context == PathContext::Reexport => continue,
                None => self.file_name.clone(),
            };
            if from != to {
                let line = self.source.line_at(path.at);
                let place = Place {
                    path: self.source.path.clone(),
                    line,
                };
                arrows.push((Arrow { from, to }, place));
            }
        }
        arrows
    }

    /// Modules written as `mod name { … }`, outer ones first, with the bytes between their braces.
    fn inline_modules(&self) -> Vec<(String, Range<usize>)> {
        let mut found = Vec::new();
        for (index, window) in self.tokens.windows(3).enumerate() {
            if window[0].text != "mod" || window[2].text != "{" {
                continue;
            }
            let mut depth = 0_usize;
            let end = self.tokens[index + 2..].iter().find(|token| {
                match token.text {
                    "{" => depth += 1,
                    "}" => depth -= 1,
                    _ => {}
                }
                depth == 0
            });
            let end = end.map_or(self.source.text.len(), |token| token.at);
            found.push((window[1].text.to_string(), window[2].at..end));
        }
        found
    }
}

/// The names that are known in the root of a crate.
#[derive(Default)]
struct CrateRoot {
    modules: BTreeSet<String>,
    /// A name that the root imports or re-exports, and the module that it comes from.
    imported: BTreeMap<String, String>,
    /// Modules all of whose names the root re-exports.
    globs: Vec<String>,
    /// Names that the root defines itself, and the name of its file.
    defined: BTreeMap<String, String>,
}

impl CrateRoot {
    fn of(files: &[ModuleFile<'_>]) -> Self {
        let mut root = Self::default();
        for file in files {
            root.modules.extend(file.module.first().cloned());
        }
        let root_files = || files.iter().filter(|file| file.module.is_empty());
        for file in root_files() {
            let mut inside_until = 0;
            for (name, range) in file.inline_modules() {
                if range.start >= inside_until {
                    inside_until = range.end;
                    root.modules.insert(name);
                }
            }
            for (name, _) in definitions(&file.tokens) {
                root.defined
                    .insert(name.to_string(), file.file_name.clone());
            }
        }
        for file in root_files() {
            for path in paths(&file.tokens) {
                root.note_import(&path);
            }
        }
        root
    }

    fn note_import(&mut self, path: &CodePath<'_>) {
        let mut parts = path.parts.iter();
        let first = parts.find(|part| !matches!(**part, "crate" | "self"));
        let Some(module) = first.filter(|first| self.modules.contains(**first)) else {
            return;
        };
        match (path.context, path.name) {
            (PathContext::Code, _) => {}
            (_, "*") => self.globs.push((*module).to_string()),
            (_, name) => {
                self.imported
                    .insert(name.to_string(), (*module).to_string());
            }
        }
    }

    /// The top-level module that a path leads to, seen from inside `module`; `None` for another crate.
    fn top_level(&self, path: &CodePath<'_>, module: &[String]) -> Option<String> {
        let mut position = module;
        match *path.parts.first()? {
            "crate" => position = &[],
            "self" | "super" => {}
            // In the root a module is in scope by its name; elsewhere a name in scope was imported before.
            name if module.is_empty() => return self.module_of(name),
            _ => return None,
        }
        let mut parts = path.parts.iter().copied();
        let name = loop {
            match parts.next()? {
                "crate" | "self" => {}
                "super" => position = position.split_last()?.1,
                name => break name,
            }
        };
        match position.first() {
            Some(top_level) => Some(top_level.clone()),
            None => self.owner_of(name),
        }
    }

    /// The module of a name that is written as a path from the root.
    fn owner_of(&self, name: &str) -> Option<String> {
        let known = self.module_of(name);
        let known = known.or_else(|| self.defined.get(name).cloned());
        known.or_else(|| self.globs.first().cloned())
    }

    /// The module itself, or the one that the root imports this name from.
    fn module_of(&self, name: &str) -> Option<String> {
        let module = self.modules.get(name);
        module.or_else(|| self.imported.get(name)).cloned()
    }
}

/// Items of a file by the word that defines them, `struct Name` for one, with their places.
pub fn definitions<'a>(tokens: &[RustToken<'a>]) -> Vec<(&'a str, usize)> {
    const KEYWORDS: [&str; 9] = [
        "struct",
        "enum",
        "trait",
        "type",
        "union",
        "fn",
        "const",
        "static",
        "macro_rules",
    ];
    let defined = tokens.windows(3).filter_map(|window| match window {
        [word, mark, name] if word.text == "macro_rules" && mark.text == "!" => Some(*name),
        [word, name, _] if KEYWORDS.contains(&word.text) => Some(*name),
        _ => None,
    });
    defined.map(|name| (name.text, name.at)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Tree;
    use super::*;

    /// `from → to path:line` for each arrow of a crate made up from files below `src`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let owned: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("x/src/{path}"), *text))
            .collect();
        let files: Vec<(&str, &str)> = owned.iter().map(|(path, text)| (&**path, *text)).collect();
        let tree = Tree::of(&files);
        let sources = CrateSources::new("x".to_string(), "x".to_string(), &tree);
        let graph = ModuleGraph::of(&sources);
        let shown = graph.arrows.iter().map(|(arrow, place)| {
            let path = place.path.trim_start_matches("x/src/");
            format!("{} → {} {path}:{}", arrow.from, arrow.to, place.line)
        });
        shown.collect()
    }

    #[test]
    fn imports_and_paths_make_arrows_between_top_level_modules() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::B;\nfn f() { crate::c::g(); }\n"),
            (
                "a/deep.rs",
                "use super::super::c;\nuse super::X;\nuse crate::a::Y;\n",
            ),
            ("b.rs", "use super::c::{D, E};\nuse std::fmt;\n"),
            ("c.rs", "// crate::a::X\nconst TEXT: &str = \"crate::a\";\n"),
        ];
        let expected = ["a → b a.rs:1", "a → c a.rs:2", "b → c b.rs:1"];
        assert_eq!(arrows(&files), expected);
    }

    #[test]
    fn test_code_makes_no_arrow() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n"),
            (
                "a.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
            ),
            ("a/tests.rs", "use crate::b::B;\n"),
            ("b.rs", ""),
        ];
        assert_eq!(arrows(&files), [""; 0]);
    }

    #[test]
    fn names_in_the_root_lead_to_the_module_that_defines_them() {
        let files = [
            (
                "lib.rs",
                "mod a;\nmod b;\nmod c;\nmod d;\npub use self::b::B;\npub use c::C as See;\npub use d::*;\nuse other::Z;\n",
            ),
            ("a.rs", "use crate::{B, See};\nuse super::Dee;\n"),
            ("b.rs", ""),
            ("c.rs", ""),
            ("d.rs", "pub struct Dee;\n"),
        ];
        let expected = ["a → b a.rs:1", "a → c a.rs:1", "a → d a.rs:2"];
        assert_eq!(arrows(&files), expected);
    }

    #[test]
    fn the_root_is_a_module_where_it_holds_code() {
        let files = [
            (
                "main.rs",
                "mod a;\nmod b;\nuse crate::a::A;\nconst LIMIT: u8 = 1;\nfn main() { b::run(); }\n",
            ),
            ("a.rs", ""),
            ("b.rs", "use crate::LIMIT;\n"),
            ("bin/other.rs", "use crate::a::X;\n"),
        ];
        let expected = [
            "b → main.rs b.rs:1",
            "main.rs → a main.rs:3",
            "main.rs → b main.rs:5",
        ];
        assert_eq!(arrows(&files), expected);
    }

    #[test]
    fn modules_inside_the_root_file_are_modules_too() {
        let files = [
            (
                "lib.rs",
                "mod a;\npub mod b {\n    pub use crate::a::A;\n    mod c { use super::super::a; }\n}\n",
            ),
            ("a.rs", "use crate::b::X;\n"),
        ];
        let expected = ["a → b a.rs:1", "b → a lib.rs:3"];
        assert_eq!(arrows(&files), expected);
    }
}
