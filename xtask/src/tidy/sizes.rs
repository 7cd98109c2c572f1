//! Types that hold or do too much: fields of a struct, methods of a type.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::modules::pass_over_tests;
use crate::tree::{Tree, Violation};

/// The most fields of a struct.
pub(super) const FIELDS_MAX: usize = 25;

/// The most methods of a type, over all its `impl` blocks without a trait.
pub(super) const METHODS_MAX: usize = 40;

/// A type that may be larger: up to so many fields and methods.
struct Larger {
    package: &'static str,
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

/// Types that may be larger, and how large. A figure only goes down; a new entry needs a reason that holds.
const LARGER: [Larger; 13] = [
    larger("apps/strandline-load", "Args", (31, METHODS_MAX), LIST),
    larger("apps/strandline-load", "SipReport", (34, METHODS_MAX), LIST),
    larger(
        "apps/strandline-sip",
        "Transactions",
        (FIELDS_MAX, 43),
        "four state machines of RFC 3261 in one table",
    ),
    larger(
        "crates/strandline",
        "State",
        (FIELDS_MAX, 59),
        "several types of this name in modules of their own",
    ),
    larger("crates/strandline-proto", "Association", (26, 174), PROCEDURES),
    larger("crates/strandline-proto", "AssociationConfig", (41, METHODS_MAX), LIST),
    larger("crates/strandline-proto", "Endpoint", (FIELDS_MAX, 94), PROCEDURES),
    larger("crates/strandline-proto", "Inbound", (FIELDS_MAX, 45), PROCEDURES),
    larger(
        "crates/strandline-proto",
        "Model",
        (27, METHODS_MAX),
        "the variables of draft-ietf-ccwg-bbr section 2",
    ),
    larger("crates/strandline-proto", "Outbound", (FIELDS_MAX, 63), PROCEDURES),
    larger(
        "crates/strandline-proto",
        "Outstanding",
        (FIELDS_MAX, 43),
        "one queue that every kind of recovery reads",
    ),
    larger(
        "crates/strandline-proto",
        "Path",
        (FIELDS_MAX, 94),
        "one method for each question to a path; its state is split",
    ),
    larger("crates/strandline-sim", "Features", (28, METHODS_MAX), LIST),
];

/// Structs and types of a package, given its files outside test code.
pub(super) fn check<'a>(tree: &Tree, package: &str, files: impl Iterator<Item = &'a str>) -> Vec<Violation> {
    let mut counter = Counter::default();
    for file in files {
        let Some(Ok(parsed)) = tree.files.get(file).map(|content| syn::parse_file(content)) else { continue };
        file.clone_into(&mut counter.file);
        counter.visit_file(&parsed);
    }
    counter.found(package)
}

#[derive(Default)]
struct Counter {
    file: String,
    /// Name, fields, file, line.
    structs: Vec<(String, usize, String, usize)>,
    /// Methods by type, with the place of its first `impl`.
    methods: BTreeMap<String, (usize, String, usize)>,
}

impl Counter {
    fn found(self, package: &str) -> Vec<Violation> {
        let most = |name: &str| {
            let one = LARGER.iter().find(|one| one.package == package && one.name == name);
            one.map_or((FIELDS_MAX, METHODS_MAX), |one| (one.fields, one.methods))
        };
        let mut found = Vec::new();
        for (name, fields, file, line) in self.structs {
            let (most, _) = most(&name);
            if fields > most {
                let message = format!("struct `{name}` has {fields} fields: split its state, at most {most}");
                found.push(Violation::new(&file, line, message));
            }
        }
        for (name, (methods, file, line)) in self.methods {
            let (_, most) = most(&name);
            if methods > most {
                let message = format!("`{name}` has {methods} methods: split it by concern, at most {most}");
                found.push(Violation::new(&file, line, message));
            }
        }
        found
    }
}

impl<'ast> Visit<'ast> for Counter {
    pass_over_tests!('ast);

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let line = item.span().start().line;
        self.structs.push((item.ident.to_string(), item.fields.len(), self.file.clone(), line));
        visit::visit_item_struct(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(path) = &*item.self_ty else { return };
        let Some(name) = path.path.segments.last().filter(|_| item.trait_.is_none()) else { return };
        let methods = item.items.iter().filter(|item| matches!(item, syn::ImplItem::Fn(_))).count();
        let line = item.span().start().line;
        let entry =
            self.methods.entry(name.ident.to_string()).or_insert_with(|| (0, self.file.clone(), line));
        entry.0 += methods;
    }
}
