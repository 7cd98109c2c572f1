use super::*;

#[test]
fn largest_values_of_a_row_are_restored() {
    let mut undo = Undo::default();
    undo.remember(10_000, 64_000);
    undo.remember(20_000, 5_000);
    assert_eq!(undo.restored(1_200, 2_400), (20_000, 64_000));
    assert_eq!(undo.restored(1_200, 2_400), (1_200, 2_400), "once");
}

#[test]
fn larger_window_is_kept() {
    let mut undo = Undo::default();
    undo.remember(10_000, 64_000);
    assert_eq!(undo.restored(30_000, 2_400), (30_000, 64_000));
}

#[test]
fn real_losses_are_not_undone() {
    let mut undo = Undo::default();
    undo.remember(10_000, 64_000);
    undo.forget();
    assert_eq!(undo.restored(1_200, 2_400), (1_200, 2_400));
}
