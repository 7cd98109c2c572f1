//! The examples of extensions run.

#[path = "../examples/addresses.rs"]
mod addresses;
#[path = "../examples/keys.rs"]
mod keys;
#[path = "../examples/lifetimes.rs"]
mod lifetimes;
#[path = "../examples/multipath.rs"]
mod multipath;
#[path = "../examples/priorities.rs"]
mod priorities;

#[test]
fn examples_of_extensions_run() {
    for example in [addresses::main, keys::main, lifetimes::main, multipath::main, priorities::main] {
        example().unwrap();
    }
}
