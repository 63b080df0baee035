//! Figures of the code's shape, which may only fall. `tests/golden/shape` has them as they are.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Attribute, FnArg, Item, Pat, Type, UseTree,
    visit::{self, Visit},
};

use super::{read, root, rust_files};

const GOLDEN: &str = "tests/golden/shape";
/// With it in the environment the test writes the figures down.
const UPDATE: &str = "UPDATE_GOLDEN";

const CRATES: [&str; 8] =
    ["scheduler", "protocol", "profiles", "adapters", "agent", "manager", "cli", "simulator"];
/// The floors of the engine: each imports only from those before it.
const FLOORS: [&str; 11] = [
    "interface",
    "record",
    "state",
    "live",
    "turn",
    "plan",
    "dispatch",
    "provision",
    "read",
    "handlers",
    "invariants",
];
/// Source files in one folder, tests aside.
const FOLDER_FILES_MAX: usize = 15;
/// How a comment begins that has to be read twice.
const VAGUE: [&str; 6] = ["What", "Who", "Whose", "Whoever", "Whatever", "Which"];

/// A file of a crate, without its tests.
struct Source {
    path: String,
    /// The module that it is, from the crate's root on.
    module: Vec<String>,
    text: String,
    /// The modules that it names with `use` or in a path, as written: from the crate's root on.
    named: BTreeSet<Vec<String>>,
    n_tuple_parameters: usize,
    n_states_as_text: usize,
    implemented: BTreeSet<String>,
    /// Public fields by type.
    public_fields: BTreeMap<String, usize>,
}

#[test]
fn shape_of_the_code_gets_no_worse() {
    let figures = figures();
    if std::env::var_os(UPDATE).is_some() {
        let text: String = figures.iter().map(|(name, n)| format!("{name}: {n}\n")).collect();
        std::fs::write(root().join(GOLDEN), text).expect("the figures can be written");
        return;
    }
    let golden = read(GOLDEN);
    let before: BTreeMap<&str, usize> = golden
        .lines()
        .filter_map(|line| line.rsplit_once(": "))
        .map(|(name, n)| (name, n.parse().expect("a figure is a number")))
        .collect();
    let found: BTreeMap<&str, usize> = figures.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let mut wrong = Vec::new();
    for name in before.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let (before, found) = (before.get(name).copied().unwrap_or(0), found.get(name).copied().unwrap_or(0));
        if found > before {
            wrong.push(format!("{name}: {found}, {before} before"));
        } else if found < before {
            wrong.push(format!("{name}: {found}, {before} before; well done: run this test with {UPDATE}=1"));
        }
    }
    assert!(wrong.is_empty(), "the shape of the code has changed:\n{}", wrong.join("\n"));
}

fn figures() -> BTreeMap<String, usize> {
    let mut figures = BTreeMap::new();
    let mut add = |name: String, n: usize| *figures.entry(name).or_insert(0) += n;
    for name in CRATES {
        let sources = sources(name);
        let circles = circles(&sources);
        add(format!("{name}: files in circles of imports"), circles.iter().sum());
        add(format!("{name}: files in the largest circle"), circles.iter().copied().max().unwrap_or(0));
        for (folder, n) in folders(&sources) {
            if n > FOLDER_FILES_MAX {
                add(format!("{folder}: source files"), n);
            }
        }
        let count = |figure: fn(&Source) -> usize| sources.iter().map(figure).sum::<usize>();
        add("parameters that are tuples".into(), count(|source| source.n_tuple_parameters));
        add(
            "fields and parameters named state that are texts".into(),
            count(|source| source.n_states_as_text),
        );
        add("comments that begin vaguely".into(), count(|source| vague_comments(&source.text)));
        let schemas = |source: &&Source| name == "scheduler" && source.text.contains("schemars");
        add("scheduler: files that name schemars".into(), sources.iter().filter(schemas).count());
        if name == "scheduler" {
            add("scheduler: names of floors above in the engine".into(), upward_arrows(&sources));
        }
        let turns = |source: &&Source| name == "scheduler" && source.implemented.contains("Turn");
        add("scheduler: files that implement Turn".into(), sources.iter().filter(turns).count());
        for live in ["Live", "PilotState", "JobLeases"] {
            let fields = sources.iter().filter_map(|source| source.public_fields.get(live)).sum();
            if name == "scheduler" {
                add(format!("scheduler: public fields of {live}"), fields);
            }
        }
    }
    figures
}

/// How often a file of the engine names a floor above its own.
fn upward_arrows(sources: &[Source]) -> usize {
    let floor = |module: &[String]| match module {
        [engine, floor, ..] if engine == "engine" => FLOORS.iter().position(|known| known == floor),
        _ => None,
    };
    let upward = |source: &Source| {
        let own = floor(&source.module);
        source.named.iter().filter(|path| own.is_some_and(|own| floor(path) > Some(own))).count()
    };
    sources.iter().map(upward).sum()
}

fn sources(name: &str) -> Vec<Source> {
    let begin = format!("{name}/src/");
    let is_source = |path: &&String| path.starts_with(&begin) && !path.contains("/tests");
    let paths: Vec<String> = rust_files().iter().filter(is_source).cloned().collect();
    let sources: Vec<Source> = paths.into_iter().map(|path| Source::read(path, &begin)).collect();
    assert!(sources.len() > 5, "{name} has more files than {}", sources.len());
    sources
}

impl Source {
    fn read(path: String, begin: &str) -> Source {
        let text = read(&path);
        let inner = path.strip_prefix(begin).and_then(|path| path.strip_suffix(".rs")).unwrap_or(&path);
        let mut module: Vec<String> = inner.split('/').map(str::to_owned).collect();
        if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            module.pop();
        }
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let text = text.split("#[cfg(test)]").next().unwrap_or("").to_owned();
        let mut source = Source {
            path,
            module,
            text,
            named: BTreeSet::new(),
            n_tuple_parameters: 0,
            n_states_as_text: 0,
            implemented: BTreeSet::new(),
            public_fields: BTreeMap::new(),
        };
        source.visit_file(&file);
        source
    }

    /// A path from the crate's root on; `None`: it leads elsewhere, or is of this module.
    fn rooted(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let n_up = path.iter().take_while(|word| *word == "super").count();
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([&self.module, rest].concat()),
            "super" => {
                let above = self.module.get(..self.module.len().checked_sub(n_up)?)?;
                Some([above, &path[n_up..]].concat())
            }
            _ => Some([&self.module[..], path].concat()),
        }
    }

    fn name(&mut self, path: &[String]) {
        self.named.extend(self.rooted(path));
    }

    fn name_tree(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.name_tree(&path.tree, before);
                before.pop();
            }
            UseTree::Name(name) => self.name(&[&before[..], &[name.ident.to_string()]].concat()),
            UseTree::Rename(name) => self.name(&[&before[..], &[name.ident.to_string()]].concat()),
            UseTree::Glob(_) => self.name(before),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.name_tree(tree, before)),
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| {
        let words = attribute.parse_args::<syn::Path>();
        attribute.path().is_ident("cfg") && words.is_ok_and(|path| path.is_ident("test"))
    };
    attributes.iter().any(is_test)
}

fn is_text(of: &Type) -> bool {
    match of {
        Type::Reference(reference) => is_text(&reference.elem),
        Type::Path(path) => path.path.is_ident("String") || path.path.is_ident("str"),
        _ => false,
    }
}

impl Visit<'_> for Source {
    fn visit_item(&mut self, item: &Item) {
        match item {
            Item::Mod(of) if is_test(&of.attrs) => {}
            Item::Use(of) if is_test(&of.attrs) => {}
            Item::Use(of) => self.name_tree(&of.tree, &mut Vec::new()),
            Item::Impl(of) => {
                if let (None, Type::Path(path)) = (&of.trait_, &*of.self_ty) {
                    self.implemented.extend(path.path.segments.last().map(|last| last.ident.to_string()));
                }
                visit::visit_item(self, item);
            }
            Item::Struct(of) => {
                let is_public = |field: &&syn::Field| !matches!(field.vis, syn::Visibility::Inherited);
                let n_public = of.fields.iter().filter(is_public).count();
                self.public_fields.insert(of.ident.to_string(), n_public);
                visit::visit_item(self, item);
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_field(&mut self, field: &syn::Field) {
        let is_state = field.ident.as_ref().is_some_and(|name| name == "state");
        self.n_states_as_text += usize::from(is_state && is_text(&field.ty));
        visit::visit_field(self, field);
    }

    fn visit_fn_arg(&mut self, argument: &FnArg) {
        if let FnArg::Typed(typed) = argument {
            let is_state = matches!(&*typed.pat, Pat::Ident(name) if name.ident == "state");
            self.n_states_as_text += usize::from(is_state && is_text(&typed.ty));
            self.n_tuple_parameters += usize::from(matches!(&*typed.ty, Type::Tuple(_)));
        }
        visit::visit_fn_arg(self, argument);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.name(&words);
        }
        visit::visit_path(self, path);
    }
}

fn vague_comments(text: &str) -> usize {
    let words = |line: &str| {
        line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!', ' ']).to_owned())
    };
    let comments = text.lines().filter_map(words);
    comments
        .filter(|comment| comment.split([' ', ',']).next().is_some_and(|first| VAGUE.contains(&first)))
        .count()
}

/// How many source files each folder has.
fn folders(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut folders = BTreeMap::new();
    for source in sources {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder.to_owned()).or_insert(0) += 1;
    }
    folders
}

/// The sizes of all circles of imports. A module that names one above it is not counted: what is above it names it
/// anyway, and the circle would be Rust's.
fn circles(sources: &[Source]) -> Vec<usize> {
    let by_module: BTreeMap<&[String], usize> =
        sources.iter().enumerate().map(|(n, source)| (&source.module[..], n)).collect();
    let named = |n: usize| -> BTreeSet<usize> {
        let source = &sources[n];
        let found = source.named.iter().filter_map(|path| {
            let longest = (0..=path.len()).rev().find_map(|length| by_module.get(&path[..length]));
            longest.copied().filter(|found| !source.module.starts_with(&sources[*found].module))
        });
        found.collect()
    };
    let arrows: Vec<BTreeSet<usize>> = (0..sources.len()).map(named).collect();
    let reached: Vec<BTreeSet<usize>> = (0..sources.len()).map(|from| reached(&arrows, from)).collect();
    let mut told = BTreeSet::new();
    let mut circles = Vec::new();
    for n in 0..sources.len() {
        let circle: BTreeSet<usize> =
            reached[n].iter().copied().filter(|other| reached[*other].contains(&n)).collect();
        if circle.len() > 1 && told.insert(circle.clone()) {
            circles.push(circle.len());
        }
    }
    circles
}

/// All that can be reached from one by one arrow or more.
fn reached(arrows: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        open.extend(arrows[next].iter().filter(|to| reached.insert(**to)));
    }
    reached
}
