//! Types that hold or do too much: fields of a struct, methods of a type.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::imports::home_of_type;
use crate::modules::{Crate, pass_over_tests};
use crate::tree::{Tree, Violation};

/// The most fields of a struct.
pub(super) const FIELDS_MAX: usize = 25;

/// The most methods of a type, over all its `impl` blocks without a trait.
pub(super) const METHODS_MAX: usize = 40;

/// A type that may be larger: up to so many fields and methods.
struct Larger {
    package: &'static str,
    /// Its path from the crate's root.
    name: &'static str,
    fields: usize,
    methods: usize,
    #[allow(dead_code, reason = "it is for readers")]
    reason: &'static str,
}

const fn larger(
    package: &'static str,
    name: &'static str,
    (fields, methods): (usize, usize),
    reason: &'static str,
) -> Larger {
    Larger { package, name, fields, methods, reason }
}

const LIST: &str =
    "a flat list of values that are read from arguments or printed; nothing changes them together";
const PROCEDURES: &str =
    "one method for each step of the RFC's procedures, in a file for each; its state is split";

/// The file with the table below, from the workspace's root.
const THIS_FILE: &str = "xtask/src/tidy/sizes.rs";

/// Types that may be larger, and how large. A figure only goes down; a new entry needs a reason that holds.
const LARGER: [Larger; 13] = [
    larger("apps/strandline-load", "sip::args::Args", (32, METHODS_MAX), LIST),
    larger("apps/strandline-load", "sip::outcome::SipReport", (34, METHODS_MAX), LIST),
    larger(
        "apps/strandline-sip",
        "transaction::layer::Transactions",
        (FIELDS_MAX, 43),
        "four state machines of RFC 3261 in one table",
    ),
    larger(
        "crates/strandline",
        "shard::state::State",
        (FIELDS_MAX, 57),
        "everything that changes under a shard's lock, in a file for each concern",
    ),
    larger("crates/strandline-proto", "association::Association", (FIELDS_MAX, 174), PROCEDURES),
    larger("crates/strandline-proto", "config::AssociationConfig", (40, METHODS_MAX), LIST),
    larger("crates/strandline-proto", "endpoint::Endpoint", (FIELDS_MAX, 94), PROCEDURES),
    larger("crates/strandline-proto", "inbound::Inbound", (FIELDS_MAX, 42), PROCEDURES),
    larger(
        "crates/strandline-proto",
        "congestion::bbr::model::Model",
        (27, METHODS_MAX),
        "the variables of draft-ietf-ccwg-bbr section 2",
    ),
    larger("crates/strandline-proto", "outbound::Outbound", (FIELDS_MAX, 63), PROCEDURES),
    larger(
        "crates/strandline-proto",
        "outbound::send_queue::queue::Queue",
        (FIELDS_MAX, 43),
        "the order of messages, those that wait for credit, and the room, in a file for each",
    ),
    larger(
        "crates/strandline-proto",
        "path::destination::Path",
        (FIELDS_MAX, 94),
        "one method for each question to a path; its state is split",
    ),
    larger("crates/strandline-sim", "scenario::Features", (28, METHODS_MAX), LIST),
];

/// Types of a package that are too large, given its crates.
pub(super) fn check(tree: &Tree, package: &str, crates: &[Crate]) -> Vec<Violation> {
    let mut types = BTreeMap::new();
    for krate in crates {
        let mut counter = Counter { krate, module: 0, file: "", types: &mut types };
        for (number, module) in krate.modules.iter().enumerate().filter(|(_, module)| !module.test) {
            // Modules within a file are visited with it.
            let within_file = module.parent.is_some_and(|parent| krate.modules[parent].file == module.file);
            let content = tree.files.get(&module.file).filter(|_| !within_file);
            let Some(Ok(parsed)) = content.map(|content| syn::parse_file(content)) else { continue };
            (counter.module, counter.file) = (number, &module.file);
            counter.visit_file(&parsed);
        }
    }
    let mut found: Vec<Violation> =
        types.iter().flat_map(|(name, size)| size.violations(name, limits(package, name))).collect();
    if tree.files.contains_key(THIS_FILE) {
        found.extend(unneeded(package, &types));
    }
    found
}

/// Entries of `LARGER` for types that the package does not have or that are no longer large.
fn unneeded(package: &str, types: &BTreeMap<String, Size>) -> Vec<Violation> {
    let mut found = Vec::new();
    for larger in LARGER.iter().filter(|larger| larger.package == package) {
        let is_larger =
            types.get(larger.name).is_some_and(|size| size.fields > FIELDS_MAX || size.methods > METHODS_MAX);
        if !is_larger {
            let message = format!(
                "no type `{}` of {package} has more than {FIELDS_MAX} fields or {METHODS_MAX} methods: remove it from LARGER",
                larger.name
            );
            found.push(Violation::new(THIS_FILE, 1, message));
        }
    }
    found
}

/// Maximum numbers of fields and methods of a type.
fn limits(package: &str, name: &str) -> (usize, usize) {
    let one = LARGER.iter().find(|one| one.package == package && one.name == name);
    one.map_or((FIELDS_MAX, METHODS_MAX), |one| (one.fields, one.methods))
}

/// The size of a type, and where its struct or its first `impl` is.
#[derive(Debug, Default)]
struct Size {
    fields: usize,
    methods: usize,
    struct_at: (String, usize),
    impl_at: (String, usize),
}

impl Size {
    fn violations(&self, path: &str, (fields_max, methods_max): (usize, usize)) -> Vec<Violation> {
        let name = path.rsplit("::").next().unwrap_or(path);
        let mut found = Vec::new();
        if self.fields > fields_max {
            let message =
                format!("struct `{name}` has {} fields: split its state, at most {fields_max}", self.fields);
            found.push(Violation::new(&self.struct_at.0, self.struct_at.1, message));
        }
        if self.methods > methods_max {
            let message =
                format!("`{name}` has {} methods: split it by concern, at most {methods_max}", self.methods);
            found.push(Violation::new(&self.impl_at.0, self.impl_at.1, message));
        }
        found
    }
}

/// Counts fields and methods of the types of a crate, by their paths from its root.
struct Counter<'a> {
    krate: &'a Crate,
    /// The module that is being visited, and its file.
    module: usize,
    file: &'a str,
    types: &'a mut BTreeMap<String, Size>,
}

impl Counter<'_> {
    /// The size of a type whose path is written in the current module.
    fn size(&mut self, path: &[String]) -> &mut Size {
        let name = path.last().map_or("", String::as_str);
        let path = match home_of_type(self.krate, self.module, path) {
            0 => name.to_owned(),
            home => format!("{}::{name}", self.krate.name(home)),
        };
        self.types.entry(path).or_default()
    }
}

impl<'ast> Visit<'ast> for Counter<'_> {
    pass_over_tests!('ast);

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let child = self.krate.modules[self.module].children.get(&item.ident.to_string());
        if let (Some(&child), Some(_)) = (child, &item.content) {
            let outer = std::mem::replace(&mut self.module, child);
            visit::visit_item_mod(self, item);
            self.module = outer;
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let place = (self.file.to_owned(), item.span().start().line);
        let size = self.size(&[item.ident.to_string()]);
        (size.fields, size.struct_at) = (item.fields.len(), place);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(path) = &*item.self_ty else { return };
        if item.trait_.is_some() {
            return;
        }
        let segments: Vec<String> = path.path.segments.iter().map(|one| one.ident.to_string()).collect();
        let methods = item.items.iter().filter(|item| matches!(item, syn::ImplItem::Fn(_))).count();
        let place = (self.file.to_owned(), item.span().start().line);
        let size = self.size(&segments);
        if size.impl_at.1 == 0 {
            size.impl_at = place;
        }
        size.methods += methods;
    }
}
