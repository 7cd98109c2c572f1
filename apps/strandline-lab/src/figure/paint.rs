//! Colours: figures on a page follow its light or dark theme, standalone pictures have fixed colours.

use crate::plan::Transport;

/// Where a figure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// In the report, whose style sheet defines the colours.
    Page,
    /// As a standalone picture, on white.
    Picture,
}

/// The role of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text and axes.
    Ink,
    /// Secondary text.
    Faint,
    /// Grid lines.
    Grid,
    /// The background.
    Ground,
    /// Invalid runs.
    Invalid,
    /// A series.
    Series(Transport, usize),
}

/// Shades of a transport on a light and on a dark background, distinguishable with colour blindness.
type Shades = [(&'static str, &'static str); 6];

const SCTP: Shades = [
    ("#0067b1", "#4aa8ff"),
    ("#00876c", "#2fc9a4"),
    ("#6a4fc3", "#a994ff"),
    ("#0a9ec4", "#7fdcf5"),
    ("#3b5b92", "#8fb3e8"),
    ("#5b8c00", "#a6d94a"),
];
const TCP: Shades = [
    ("#c8500a", "#ff9452"),
    ("#a87900", "#e8bc3f"),
    ("#8c2f39", "#f08a94"),
    ("#70543e", "#c9a98f"),
    ("#b5651d", "#ffc28a"),
    ("#5a1f1f", "#d98282"),
];
const UDP: Shades = [
    ("#5b6573", "#a5b1c2"),
    ("#86909c", "#c9d2de"),
    ("#3f4854", "#7d8896"),
    ("#557a7a", "#e4eaf1"),
    ("#6d7f8f", "#b8cbdc"),
    ("#2c3138", "#909caa"),
];
const OTHER: Shades = [
    ("#a3337f", "#ee86c9"),
    ("#7d5ba6", "#c6a3ee"),
    ("#b5546b", "#f29fb2"),
    ("#5c3566", "#b98ac4"),
    ("#8e4585", "#d99ad2"),
    ("#c15b8a", "#ffb0d2"),
];

fn shades(transport: Transport) -> (&'static str, Shades) {
    match transport {
        Transport::Sctp => ("sctp", SCTP),
        Transport::Tcp => ("tcp", TCP),
        Transport::Udp => ("udp", UDP),
        Transport::OtherSctp => ("other", OTHER),
    }
}

const PLAIN: [(&str, &str, &str); 5] = [
    ("ink", "#1c2733", "#e6edf5"),
    ("faint", "#5d6b7a", "#9fb0c3"),
    ("grid", "#dfe5ec", "#2c3846"),
    ("ground", "#ffffff", "#141c26"),
    ("invalid", "#75818e", "#8796a8"),
];

impl Paint {
    fn plain(self) -> usize {
        match self {
            Self::Ink => 0,
            Self::Faint => 1,
            Self::Grid => 2,
            Self::Ground => 3,
            Self::Invalid | Self::Series(..) => 4,
        }
    }

    /// Returns the colour as CSS.
    #[must_use]
    pub fn css(self, theme: Theme) -> String {
        let (name, light) = match self {
            Self::Series(transport, shade) => {
                let (name, shades) = shades(transport);
                let shade = shade % shades.len();
                let light = shades.get(shade).map_or("", |(light, _)| light);
                (format!("{name}-{shade}"), light)
            }
            plain => {
                let (name, light, _) = PLAIN.get(plain.plain()).copied().unwrap_or_default();
                (name.to_owned(), light)
            }
        };
        if theme == Theme::Page { format!("var(--{name})") } else { light.to_owned() }
    }
}

/// Returns the CSS variables for a light and for a dark background.
#[must_use]
pub fn variables() -> [String; 2] {
    let [mut light, mut dark] = [String::new(), String::new()];
    let mut set = |name: String, on_light: &str, on_dark: &str| {
        light += &format!("--{name}:{on_light};");
        dark += &format!("--{name}:{on_dark};");
    };
    for (name, on_light, on_dark) in PLAIN {
        set(name.to_owned(), on_light, on_dark);
    }
    for transport in [Transport::Sctp, Transport::Tcp, Transport::Udp, Transport::OtherSctp] {
        let (name, shades) = shades(transport);
        for (number, (on_light, on_dark)) in shades.iter().enumerate() {
            set(format!("{name}-{number}"), on_light, on_dark);
        }
    }
    [light, dark]
}
