//! Lists of named facts: what is shown of one thing.

use crate::show::{Ink, Screen};

/// Lines of a name and what is said of it.
#[derive(Debug, Default)]
pub struct Facts {
    lines: Vec<(String, String)>,
}

impl Facts {
    /// One more line at the bottom. Further lines of a text stand below its first.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.lines.push((name.into(), text.into()));
    }

    /// One more line, when there is something to say.
    pub fn add_some(&mut self, name: &str, text: Option<String>) {
        if let Some(text) = text {
            self.add(name, text);
        }
    }

    /// The list as text; every line ends.
    pub fn render(&self, screen: &Screen) -> String {
        let width = self.lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let mut shown = String::new();
        for (name, text) in &self.lines {
            let padding = " ".repeat(width - name.chars().count());
            let mut name = screen.paint(Ink::Bold, name) + &padding;
            for line in text.lines() {
                shown.push_str(format!("{name}  {line}").trim_end());
                shown.push('\n');
                name = " ".repeat(width);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::Facts;
    use crate::show::Screen;

    #[test]
    fn texts_stand_below_each_other() {
        let mut facts = Facts::default();
        facts.add("state", "active");
        facts.add("wall time", "1s\n2s");
        facts.add_some("nothing", None);
        assert_eq!(facts.render(&Screen::default()), "state      active\nwall time  1s\n           2s\n");
    }
}
