//! Checks of Rust code that need its syntax: function lengths, names, panics, the location of tests and of
//! unsafe code.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::modules::{is_test_only, pass_over_tests};
use crate::tree::Violation;

/// Maximum number of lines of a function, from `fn` to its closing brace.
pub(super) const FUNCTION_LINES_MAX: usize = 70;

/// Crates that may contain unsafe code: those that call the operating system or C.
const UNSAFE_CRATES: [&str; 6] = [
    "crates/strandline-io/",
    "crates/strandline-udp/",
    "crates/strandline-ops/src/heap.rs",
    "crates/strandline-ops/src/tcp.rs",
    "crates/strandline-ops/src/window.rs",
    "crates/strandline-preload/",
];

/// Checks lengths, names, tests in source files and unsafe code of any Rust file, tests included.
pub(super) fn check(name: &str, content: &str) -> Vec<Violation> {
    let Ok(parsed) = syn::parse_file(content) else {
        return vec![Violation::new(name, 1, "does not parse as Rust: `cargo check` says where")];
    };
    let mut checker = Functions { file: name, found: Vec::new() };
    checker.visit_file(&parsed);
    checker.found
}

/// Checks for calls that panic, outside test code and in documentation examples.
pub(super) fn check_panics(name: &str, content: &str) -> Vec<Violation> {
    let Ok(parsed) = syn::parse_file(content) else { return Vec::new() };
    let mut checker = Panics { file: name, found: Vec::new() };
    checker.visit_file(&parsed);
    checker.found
}

struct Functions<'a> {
    file: &'a str,
    found: Vec<Violation>,
}

impl Functions<'_> {
    fn check_function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.span().start().line, block.brace_token.span.close().end().line);
        let lines = last + 1 - first;
        if lines > FUNCTION_LINES_MAX {
            let message = format!(
                "function `{}` has {lines} lines: split it by step, at most {FUNCTION_LINES_MAX}",
                signature.ident
            );
            self.found.push(Violation::new(self.file, first, message));
        }
        self.check_name(&signature.ident);
    }

    fn check_name(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        // `get` and `get_mut` are the standard library's pair for a look-up by key.
        if let Some(rest) = name.strip_prefix("get_").filter(|rest| *rest != "mut") {
            let message = format!("function `{name}`: call it `{rest}`, without `get_`");
            self.found.push(Violation::new(self.file, ident.span().start().line, message));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.check_function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.check_function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        match &function.default {
            Some(block) => self.check_function(&function.sig, block),
            None => self.check_name(&function.sig.ident),
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_some() && is_test_only(&module.attrs) && self.file.contains("/src/") {
            let name = &module.ident;
            let message =
                format!("tests in the source file: move `{name}` to a file beside it, `.../{name}.rs`");
            self.found.push(Violation::new(self.file, module.span().start().line, message));
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let syn::Meta::List(list) = &attribute.meta else { return };
        let allows = list.path.is_ident("allow") || list.path.is_ident("expect");
        let names_unsafe = list
            .tokens
            .clone()
            .into_iter()
            .any(|token| matches!(&token, TokenTree::Ident(ident) if ident == "unsafe_code"));
        if allows && names_unsafe && !UNSAFE_CRATES.iter().any(|folder| self.file.starts_with(folder)) {
            let message = "unsafe code is allowed here: keep it in strandline-io and strandline-udp, which talk to the system";
            self.found.push(Violation::new(self.file, attribute.span().start().line, message));
        }
    }
}

struct Panics<'a> {
    file: &'a str,
    found: Vec<Violation>,
}

impl Panics<'_> {
    fn add(&mut self, what: &str, span: proc_macro2::Span) {
        let message =
            format!("`{what}` outside tests: return an error or a default, or match on what can't be");
        self.found.push(Violation::new(self.file, span.start().line, message));
    }

    /// Checks for `.unwrap(` and `.expect(` within a macro's arguments.
    fn check_tokens(&mut self, tokens: &TokenStream) {
        let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
        for (at, token) in trees.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.check_tokens(&group.stream()),
                TokenTree::Ident(ident) if at > 0 && is_panicking(&ident.to_string()) => {
                    let called = matches!(trees.get(at + 1), Some(TokenTree::Group(_)));
                    let method = matches!(&trees[at - 1], TokenTree::Punct(punct) if punct.as_char() == '.');
                    if called && method {
                        self.add(&ident.to_string(), ident.span());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the line of documentation that this attribute holds.
fn documentation(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
    pair.path.is_ident("doc").then(|| text.value())
}

fn is_panicking(method: &str) -> bool {
    matches!(method, "unwrap" | "expect" | "unwrap_err" | "expect_err" | "unwrap_unchecked")
}

impl<'ast> Visit<'ast> for Panics<'_> {
    pass_over_tests!('ast);

    /// Checks documentation, whose examples users copy.
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let Some(line) = documentation(attribute) {
            for call in [".unwrap()", ".unwrap_err()", ".expect(", "panic!(", "unreachable!("] {
                if line.contains(call) {
                    let message = format!("`{call}` in an example: hand the error on with `?`");
                    self.found.push(Violation::new(self.file, attribute.span().start().line, message));
                }
            }
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        if is_panicking(&method) {
            self.add(&method, call.method.span());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if ["panic", "unreachable"].iter().any(|name| call.path.is_ident(name)) {
            let name = call.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            self.add(&format!("{name}!"), call.path.span());
        }
        self.check_tokens(&call.tokens);
        visit::visit_macro(self, call);
    }
}
