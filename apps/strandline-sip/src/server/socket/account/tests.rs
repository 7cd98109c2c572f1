use super::*;

#[test]
fn kept_bytes_are_accounted_and_returned() {
    let account = Rc::new(Account::default());
    let (one, other) = (Share::of(&account), Share::of(&account));
    one.set_begun(100);
    one.set_pending(50);
    other.set_pending(7);
    assert_eq!((account.bytes(), one.bytes(), other.bytes()), (157, 150, 7));
    one.set_begun(10);
    assert_eq!(account.bytes(), 67);
    drop(one);
    assert_eq!(account.bytes(), 7);
    other.set_pending(0);
    assert_eq!(account.bytes(), 0);
}

#[test]
fn the_largest_go_until_there_is_room_again() {
    let shares = || vec![(10, 'a'), (50, 'b'), (30, 'c'), (20, 'd')];
    assert_eq!(largest(shares(), 110, 100), ['b']);
    assert_eq!(largest(shares(), 110, 40), ['b', 'c']);
    assert_eq!(largest(shares(), 60, 100), [' '; 0]);
}
