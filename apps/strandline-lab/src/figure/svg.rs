//! A writer of SVG documents.

use std::fmt::Write;

use super::paint::{Paint, Theme};

/// Alignment of text relative to its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG drawing under construction.
#[derive(Debug)]
pub struct Svg {
    theme: Theme,
    body: String,
}

/// Size of text in pixels.
pub const TEXT: f64 = 13.0;

/// Escapes text for XML and HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the approximate width of a text in pixels: readers' fonts differ.
#[must_use]
pub fn text_width(text: &str, size: f64) -> f64 {
    let narrow = |c: char| "il.,:;'|!()[]/ ".contains(c);
    let widths = text.chars().map(|c| match c {
        c if narrow(c) => 0.36,
        c if c.is_uppercase() || c == 'm' || c == 'w' => 0.74,
        _ => 0.59,
    });
    widths.sum::<f64>() * size
}

/// Wraps a text to a width, between words.
#[must_use]
pub fn wrap(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), TEXT) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

impl Svg {
    pub fn new(theme: Theme) -> Self {
        Self { theme, body: String::new() }
    }

    /// Returns the complete document.
    pub fn finish(self, width: f64, height: f64, title: &str) -> String {
        let font = match self.theme {
            Theme::Page => "inherit",
            Theme::Picture => "DejaVu Sans, sans-serif",
        };
        let ground = match self.theme {
            Theme::Page => String::new(),
            Theme::Picture => format!("<rect width=\"{width}\" height=\"{height:.0}\" fill=\"#ffffff\"/>"),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" width=\"{width}\" \
             height=\"{height:.0}\" role=\"img\" aria-label=\"{}\" font-family=\"{font}\" font-size=\"{TEXT}\">\
             {ground}{}</svg>",
            escape(title),
            self.body
        )
    }

    pub fn text(&mut self, [x, y]: [f64; 2], text: &str, anchor: Anchor, paint: Paint) {
        self.styled_text([x, y], text, anchor, paint, "");
    }

    /// Writes text with additional attributes.
    pub fn styled_text(&mut self, [x, y]: [f64; 2], text: &str, anchor: Anchor, paint: Paint, more: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (css, text) = (paint.css(self.theme), escape(text));
        self.write(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" style=\"fill:{css}\"{more}>{text}</text>"
        ));
    }

    /// Writes text that runs upwards, centred on its position.
    pub fn upward_text(&mut self, [x, y]: [f64; 2], text: &str, paint: Paint) {
        let turn = format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"");
        self.styled_text([x, y], text, Anchor::Middle, paint, &turn);
    }

    pub fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], paint: Paint, width: f64) {
        let css = paint.css(self.theme);
        self.write(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
             style=\"stroke:{css};stroke-width:{width}\"/>"
        ));
    }

    /// Draws a line through points.
    pub fn path(&mut self, points: &[[f64; 2]], paint: Paint, dashed: bool) {
        let mut through = String::new();
        for (number, [x, y]) in points.iter().enumerate() {
            let letter = if number == 0 { 'M' } else { 'L' };
            // Writing to a string doesn't fail.
            let _ = write!(through, "{letter}{x:.1} {y:.1}");
        }
        let (css, dash) = (paint.css(self.theme), if dashed { ";stroke-dasharray:6 4" } else { "" });
        self.write(&format!(
            "<path d=\"{through}\" style=\"fill:none;stroke:{css};stroke-width:2;stroke-linejoin:round{dash}\"/>"
        ));
    }

    /// Draws points, all in one element.
    pub fn dots(&mut self, places: &[[f64; 2]], paint: Paint) {
        let mut all = String::new();
        for [x, y] in places {
            // Writing to a string doesn't fail.
            let _ = write!(all, "M{x:.1} {y:.1}h0");
        }
        let css = paint.css(self.theme);
        let style = format!("fill:none;stroke:{css};stroke-width:2;stroke-linecap:round");
        self.write(&format!("<path d=\"{all}\" style=\"{style}\"/>"));
    }

    /// Draws a rectangle; hollow ones have a dashed outline.
    pub fn bar(
        &mut self,
        [x, y]: [f64; 2],
        [width, height]: [f64; 2],
        paint: Paint,
        hollow: bool,
        tip: &str,
    ) {
        let css = paint.css(self.theme);
        let style = if hollow {
            format!("fill:{css};fill-opacity:0.12;stroke:{css};stroke-width:1.5;stroke-dasharray:4 3")
        } else {
            format!("fill:{css}")
        };
        let (width, tip) = (width.max(0.5), escape(tip));
        self.write(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" style=\"{style}\">\
             <title>{tip}</title></rect>"
        ));
    }

    /// Draws the marker of a series; each series has a shape of its own.
    pub fn sign(&mut self, [x, y]: [f64; 2], shape: usize, paint: Paint, hollow: bool, tip: &str) {
        let (css, ground) = (paint.css(self.theme), Paint::Ground.css(self.theme));
        let (fill, r) = (if hollow { &ground } else { &css }, 4.5);
        let style = format!("style=\"fill:{fill};stroke:{css};stroke-width:1.8\"");
        let tip = format!("<title>{}</title>", escape(tip));
        let polygon = |points: &[[f64; 2]]| {
            let points: Vec<String> =
                points.iter().map(|[dx, dy]| format!("{:.1},{:.1}", x + dx * r, y + dy * r)).collect();
            format!("<polygon points=\"{}\" {style}>{tip}</polygon>", points.join(" "))
        };
        let drawn = match shape % 5 {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" {style}>{tip}</circle>"),
            1 => polygon(&[[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
            2 => polygon(&[[0.0, -1.2], [1.1, 0.8], [-1.1, 0.8]]),
            3 => polygon(&[[0.0, -1.3], [1.3, 0.0], [0.0, 1.3], [-1.3, 0.0]]),
            _ => polygon(&[[0.0, 1.2], [1.1, -0.8], [-1.1, -0.8]]),
        };
        self.write(&drawn);
    }

    /// Draws a cross, which marks an invalid run.
    pub fn cross(&mut self, [x, y]: [f64; 2], tip: &str) {
        let (css, tip) = (Paint::Invalid.css(self.theme), escape(tip));
        let (l, r, t, b) = (x - 4.0, x + 4.0, y - 4.0, y + 4.0);
        self.write(&format!(
            "<path d=\"M{l:.1} {t:.1}L{r:.1} {b:.1}M{l:.1} {b:.1}L{r:.1} {t:.1}\" \
             style=\"fill:none;stroke:{css};stroke-width:2\"><title>{tip}</title></path>"
        ));
    }

    fn write(&mut self, text: &str) {
        self.body.push_str(text);
    }
}
