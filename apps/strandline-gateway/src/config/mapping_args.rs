//! The options of the command line that say which connections become streams.

use super::file::{Fallback, MapRule, StringOrList};
use crate::mapping::Map;

/// Options of `strandline gateway`, for the peers of `--peer`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct MappingArgs {
    /// Connect directly over TCP while there is no association, for the peers of --peer
    #[arg(long)]
    fallback_tcp: bool,
    /// Which connections become streams: auto (as far as it helps; needs --fallback-tcp, and is the default
    /// with it), always or never. With a destination behind it, only connections to that; the first that fits
    /// counts
    #[arg(long, value_name = "auto|always|never[=HOST:PORT]", value_parser = mapped)]
    map: Vec<Mapped>,
    /// Associations with each peer of --peer, at most: more than one if losses keep the window small. Default: 4
    #[arg(long, value_name = "NUMBER")]
    pub(super) contexts_max: Option<u32>,
}

impl MappingArgs {
    pub(super) const fn fallback(&self) -> Fallback {
        if self.fallback_tcp { Fallback::Tcp } else { Fallback::None }
    }

    /// Returns what is said of connections to any destination.
    pub(super) fn map(&self) -> Option<Map> {
        self.map.iter().find(|mapped| mapped.to.is_none()).map(|mapped| mapped.map)
    }

    /// Returns the rules for destinations.
    pub(super) fn rules(&self) -> impl Iterator<Item = MapRule> {
        self.map.iter().filter_map(|mapped| {
            let to = StringOrList(vec![mapped.to.clone()?]);
            Some(MapRule { to, listener: StringOrList::default(), peer: None, map: mapped.map })
        })
    }
}

/// What `--map` says.
#[derive(Debug, Clone)]
struct Mapped {
    map: Map,
    to: Option<String>,
}

fn mapped(text: &str) -> Result<Mapped, String> {
    let (word, to) = match text.split_once('=') {
        Some((word, to)) => (word, Some(to.to_owned())),
        None => (text, None),
    };
    let map = match word {
        "auto" => Map::Auto,
        "always" => Map::Always,
        "never" => Map::Never,
        _ => {
            return Err("auto, always or never, and a destination behind = if it is for that only".to_owned());
        }
    };
    Ok(Mapped { map, to })
}
