//! `cargo xtask book`: the documentation as a book, with the files that it names beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Command, root};
use crate::crates::MDBOOK;

/// Makes the book and returns its first page; an error names every link in it that leads nowhere.
pub fn make() -> Result<PathBuf, String> {
    // Pages that have gone would stay otherwise, and links to them would lead somewhere.
    let book = root().join("target/book");
    if book.exists() {
        fs::remove_dir_all(&book).map_err(|error| at(&book, &error))?;
    }
    MDBOOK.install_if_missing()?.args(["build"]).run()?;
    for path in Command::new("git", ["ls-files", "deploy", "examples"])
        .read_stdout()?
        .lines()
    {
        lay_beside(path, &book)?;
    }
    let pages = pages_below(&book.join("docs"))?;
    let dead: Vec<String> = pages
        .iter()
        .map(|page| dead_links(page))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    match dead.is_empty() {
        true => Ok(book.join("docs/index.html")),
        false => Err(format!("links that lead nowhere:\n  {}", dead.join("\n  "))),
    }
}

/// Puts a file of the repository where links of the book look for it. mdBook takes every link to a text for one to a page.
fn lay_beside(path: &str, book: &Path) -> Result<(), String> {
    let (from, to) = (root().join(path), book.join(path));
    let directory = to.parent().unwrap_or(book);
    fs::create_dir_all(directory).map_err(|error| at(directory, &error))?;
    fs::copy(&from, &to).map_err(|error| at(&from, &error))?;
    if path.ends_with(".md") {
        let text = fs::read_to_string(&from).map_err(|error| at(&from, &error))?;
        let page = to.with_extension("html");
        fs::write(&page, as_page(path, &text)).map_err(|error| at(&page, &error))?;
    }
    Ok(())
}

/// A text as it is, for a browser.
fn as_page(title: &str, text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<pre>\n{text}</pre>\n"
    )
}

fn pages_below(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| at(directory, &error))? {
        let path = entry.map_err(|error| at(directory, &error))?.path();
        if path.is_dir() {
            pages.extend(pages_below(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "html")
            && !is_made_up(&path)
        {
            pages.push(path);
        }
    }
    Ok(pages)
}

/// Pages of mdBook's own: all others in one, and what is shown for those that are missing, wherever that is.
fn is_made_up(page: &Path) -> bool {
    page.file_name().is_some_and(|name| {
        ["print.html", "404.html", "toc.html"]
            .iter()
            .any(|own| name == *own)
    })
}

fn dead_links(page: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(page).map_err(|error| at(page, &error))?;
    let directory = page.parent().unwrap_or(page);
    let is_dead = |link: &&str| !directory.join(link).exists();
    Ok(files_linked(&text)
        .into_iter()
        .filter(is_dead)
        .map(|link| format!("{}: {link}", page.display()))
        .collect())
}

/// The files that the links of a page lead to; other hosts and places in the page are left out.
fn files_linked(text: &str) -> Vec<&str> {
    let links = text
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let files = links.filter_map(|link| link.split('#').next());
    files
        .filter(|file| !file.is_empty() && !file.contains("://") && !file.starts_with("mailto:"))
        .collect()
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found_and_others_left() {
        let page = r##"<a href="a.html#x"><link href="css/b.css"><a href="#here"><a href="https://c.example/">"##;
        assert_eq!(files_linked(page), ["a.html", "css/b.css"]);
    }

    #[test]
    fn a_text_stays_text() {
        let page = as_page("README.md", "<b>1 & 2</b>");
        assert!(
            page.contains("<pre>\n&lt;b&gt;1 &amp; 2&lt;/b&gt;</pre>"),
            "{page}"
        );
    }
}
