//! The module tree of a crate, parsed from its sources: the file of each module, its imports, and its test
//! code.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::tree::{Tree, Violation};

/// The modules of a crate; the root has number 0.
#[derive(Debug)]
pub(crate) struct Crate {
    pub(crate) modules: Vec<Module>,
    /// Files that could not be read or parsed.
    pub(crate) broken: Vec<Violation>,
}

/// A module.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) parent: Option<usize>,
    pub(crate) children: BTreeMap<String, usize>,
    /// Whether the module is compiled only for tests.
    pub(crate) test: bool,
    /// Names that `use` brings into the module, with the path of each.
    pub(crate) uses: BTreeMap<String, Vec<String>>,
    /// Paths outside test code.
    pub(crate) references: Vec<Reference>,
}

/// A path written somewhere in a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

impl Crate {
    /// Loads the tree that starts at the file `root` (lib.rs, main.rs or a separate program).
    pub(crate) fn load(tree: &Tree, root: &str) -> Self {
        let mut loader = Self { modules: vec![Module::default()], broken: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        loader.modules[0].name = "crate".to_owned();
        loader.load_file(tree, 0, root, &folder);
        loader
    }

    /// Returns the module's name as `a::b`, without the leading `crate`; `crate` for the root.
    pub(crate) fn name(&self, module: usize) -> String {
        let mut names: Vec<&str> = Vec::new();
        let mut at = module;
        while let Some(parent) = self.modules[at].parent {
            names.push(&self.modules[at].name);
            at = parent;
        }
        names.reverse();
        if names.is_empty() { "crate".to_owned() } else { names.join("::") }
    }

    /// Returns the module with this name (`a::b`), if there is one.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        (0..self.modules.len()).find(|&module| self.name(module) == name)
    }

    fn load_file(&mut self, tree: &Tree, module: usize, file: &str, folder: &str) {
        file.clone_into(&mut self.modules[module].file);
        let Some(text) = tree.files.get(file) else {
            self.broken.push(Violation::new(file, 1, "the file is missing: add it or remove its `mod`"));
            return;
        };
        match syn::parse_file(text) {
            Ok(parsed) => self.load_items(tree, module, &parsed.items, folder),
            Err(error) => {
                let line = error.span().start().line;
                self.broken.push(Violation::new(file, line, format!("does not parse: {error}")));
            }
        }
    }

    /// Loads the items of a module. `folder` holds the files of its child modules.
    fn load_items(&mut self, tree: &Tree, module: usize, items: &[syn::Item], folder: &str) {
        let mut collector = Collector::default();
        for item in items {
            match item {
                syn::Item::Mod(child) => self.load_child(tree, module, child, folder),
                other => collector.visit_item(other),
            }
        }
        self.modules[module].uses = collector.uses;
        self.modules[module].references = collector.references;
    }

    fn load_child(&mut self, tree: &Tree, parent: usize, item: &syn::ItemMod, folder: &str) {
        let name = item.ident.to_string();
        let number = self.modules.len();
        self.modules.push(Module {
            name: name.clone(),
            file: self.modules[parent].file.clone(),
            parent: Some(parent),
            test: self.modules[parent].test || is_test_only(&item.attrs),
            ..Module::default()
        });
        self.modules[parent].children.insert(name.clone(), number);
        let below = join(folder, &name);
        if let Some((_, items)) = &item.content {
            self.load_items(tree, number, items, &below);
            return;
        }
        let (beside, inside) = (format!("{below}.rs"), format!("{below}/mod.rs"));
        if tree.files.contains_key(&beside) {
            self.load_file(tree, number, &beside, &below);
        } else if tree.files.contains_key(&inside) {
            self.load_file(tree, number, &inside, &below);
        } else {
            let parent_file = self.modules[parent].file.clone();
            let message = format!("module `{name}` has no file: add {beside} or {inside}");
            self.broken.push(Violation::new(&parent_file, item.ident.span().start().line, message));
        }
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]` and `#[cfg(any(test, feature = "fuzzing"))]`: what
/// only builds for tests and fuzz targets contain.
pub(crate) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("test") {
            return true;
        }
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && cfg_needs_test(&list.tokens)
    })
}

fn cfg_needs_test(tokens: &TokenStream) -> bool {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    trees.iter().enumerate().any(|(at, token)| {
        let TokenTree::Ident(ident) = token else { return false };
        match (ident.to_string().as_str(), trees.get(at + 1)) {
            ("test", _) => true,
            ("all", Some(TokenTree::Group(group))) => cfg_needs_test(&group.stream()),
            ("any", Some(TokenTree::Group(group))) => {
                group.stream().to_string() == "test , feature = \"fuzzing\""
            }
            _ => false,
        }
    })
}

/// Methods that skip test code, for use within `impl Visit<'ast>`.
macro_rules! pass_over_tests {
    ($ast:lifetime) => {
        fn visit_item(&mut self, item: &$ast syn::Item) {
            if !$crate::modules::is_test_only($crate::modules::item_attributes(item)) {
                syn::visit::visit_item(self, item);
            }
        }

        fn visit_impl_item_fn(&mut self, function: &$ast syn::ImplItemFn) {
            if !$crate::modules::is_test_only(&function.attrs) {
                syn::visit::visit_impl_item_fn(self, function);
            }
        }
    };
}

pub(crate) use pass_over_tests;

/// Returns the attributes of an item, if it is of a kind that can be test code.
pub(crate) fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Collects the paths of a module's own items, without those of test code.
#[derive(Default)]
struct Collector {
    uses: BTreeMap<String, Vec<String>>,
    references: Vec<Reference>,
}

impl Collector {
    fn add(&mut self, segments: Vec<String>, line: usize) {
        let reference = Reference { segments, line };
        if !self.references.contains(&reference) {
            self.references.push(reference);
        }
    }

    fn add_use(&mut self, prefix: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use(prefix, &path.tree);
                prefix.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.add_use(prefix, item)),
            syn::UseTree::Glob(glob) => self.add(prefix.clone(), glob.span().start().line),
            syn::UseTree::Name(name) => self.bind(prefix, &name.ident, &name.ident),
            syn::UseTree::Rename(rename) => self.bind(prefix, &rename.ident, &rename.rename),
        }
    }

    fn bind(&mut self, prefix: &[String], ident: &syn::Ident, bound: &syn::Ident) {
        let mut segments = prefix.to_vec();
        if ident != "self" {
            segments.push(ident.to_string());
        }
        let name =
            if bound == "self" { prefix.last().cloned().unwrap_or_default() } else { bound.to_string() };
        self.add(segments.clone(), ident.span().start().line);
        self.uses.insert(name, segments);
    }

    /// Adds the paths within a macro's arguments, which are only tokens: `a :: b :: c`.
    fn add_tokens(&mut self, tokens: &TokenStream) {
        let mut segments: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens.clone() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.flush(&mut segments, line);
                        line = ident.span().start().line;
                    }
                    segments.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    self.flush(&mut segments, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(&group.stream());
                    }
                }
            }
        }
        self.flush(&mut segments, line);
    }

    fn flush(&mut self, segments: &mut Vec<String>, line: usize) {
        if segments.len() > 1 {
            self.add(std::mem::take(segments), line);
        }
        segments.clear();
    }
}

impl<'ast> Visit<'ast> for Collector {
    pass_over_tests!('ast);

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_use(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.add(segments, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::a)` grants access and imports nothing.
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_tokens(&call.tokens);
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests;
