use super::*;

fn topology(paths: usize, ipv6: bool) -> Topology {
    let paths = vec![[LinkConfig::default(), LinkConfig::default()]; paths];
    Topology { paths, mtu: 1500, ipv6, tcp: "cubic".to_owned(), schedule: Vec::new(), seed: 1 }
}

#[test]
fn addresses_take_the_place_of_their_names() {
    let topology = topology(2, true);
    let text = topology.substitute("x {left} {right}:80 {right.2} [{right6.2}] {right.3} {other}");
    assert_eq!(text, "x 10.0.1.1 10.0.1.2:80 10.0.2.2 [fd00:0:0:2::2] {right.3} {other}");
    let variables: Vec<_> = topology.substitutions().into_iter().map(|(_, variable, _)| variable).collect();
    assert!(variables.contains(&"RIGHT6_2".to_owned()) && variables.contains(&"LEFT".to_owned()));
    assert_eq!(topology.addresses(Side::Left).count(), 4);
}

#[test]
fn every_link_has_a_seed_of_its_own() {
    let mut topology = topology(2, false);
    for links in &mut topology.paths {
        for link in links {
            link.loss = strandline_netem::Loss::Random(0.5);
        }
    }
    let mut fates = Vec::new();
    for path in 0..2 {
        for direction in Direction::BOTH {
            let mut link = topology.link(path, direction);
            let fate: Vec<_> = (0..64).map(|_| link.offer(0, 100)).collect();
            assert!(!fates.contains(&fate), "path {path} {direction:?}");
            fates.push(fate);
        }
    }
}
