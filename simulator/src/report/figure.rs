//! Figures: what is drawn, apart from how.

/// A figure with a name of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Of its SVG file, without folder and ending: lower case, words joined by hyphens.
    pub name: String,
    /// Above it.
    pub title: String,
    /// Below it, with the unit.
    pub x_label: String,
    /// At its left, with the unit.
    pub y_label: String,
    /// What is in it.
    pub shape: Shape,
}

/// What a figure shows. Each series has a name for the legend.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A group of bars for each category, a bar in it for each series.
    Bars {
        /// Below the groups.
        categories: Vec<String>,
        /// One value a category.
        series: Vec<(String, Vec<f64>)>,
    },
    /// Lines through points (x, y), x ascending.
    Lines {
        /// Points of each.
        series: Vec<(String, Vec<(f64, f64)>)>,
        /// Whether x is drawn by its logarithm.
        is_log_x: bool,
        /// Whether y is drawn by its logarithm.
        is_log_y: bool,
    },
}
