use super::bursts;

#[test]
fn requests_take_the_paths_in_turn() {
    let paths = ["/page/", "/a", "/b"].map(str::to_owned);
    assert_eq!(bursts(&paths, &[1, 2]), [vec!["/page/"], vec!["/a", "/b"]]);
    assert_eq!(bursts(&paths[..1], &[3]), [vec!["/page/"; 3]]);
}
