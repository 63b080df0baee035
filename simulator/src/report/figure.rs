//! Figures: their content, and their drawing as SVG or PNG.

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::raster::Raster;

/// A figure with a name of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of its SVG file, without directory and extension: lower case, words joined by hyphens.
    pub name: String,
    /// Title above the figure.
    pub title: String,
    /// Label below the figure, with the unit.
    pub x_label: String,
    /// Label at the left of the figure, with the unit.
    pub y_label: String,
    /// The content.
    pub shape: Shape,
}

/// The content of a figure. Each series has a name for the legend.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A group of bars for each category, a bar in it for each series.
    Bars {
        /// Labels below the groups.
        categories: Vec<String>,
        /// Each series with one value for each category.
        series: Vec<(String, Vec<f64>)>,
    },
    /// Lines through points (x, y), x ascending.
    Lines {
        /// Each series with its points.
        series: Vec<(String, Vec<(f64, f64)>)>,
        /// Whether the x axis is logarithmic.
        is_log_x: bool,
        /// Whether the y axis is logarithmic.
        is_log_y: bool,
    },
}

/// Width and height in pixels.
const SIZE: (u32, u32) = (900, 440);
/// Width of the legend at the right of the figure, in pixels.
const LEGEND_WIDTH: u32 = 210;
/// Colours that colour-blind people can distinguish, too (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
    RGBColor(190, 180, 20),
];
/// Width of a letter below a group of bars, in pixels.
const LETTER_WIDTH: usize = 7;
/// A generic font, not one of this machine: each viewer has it.
const FONT: &str = "sans-serif";

type Drawing = Result<(), Box<dyn std::error::Error>>;
type Area<B> = DrawingArea<B, Shift>;

/// A backend on which figures can be drawn.
trait Ground: DrawingBackend<ErrorType: 'static> {}
impl<B: DrawingBackend<ErrorType: 'static>> Ground for B {}

impl Figure {
    /// Returns the figure as SVG; a figure with nothing to draw becomes a text.
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        let drawn = self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area());
        if let Err(error) = drawn {
            svg = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"40\"><text y=\"20\">{}: {error}</text></svg>\n",
                self.name
            );
        }
        svg
    }

    /// Returns the figure as PNG; a figure with nothing to draw becomes a text.
    ///
    /// # Errors
    /// The image cannot be encoded.
    pub fn to_png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut pixels = vec![0; Raster::n_bytes(SIZE)];
        let drawn = self.draw(&Raster::on(&mut pixels, SIZE).into_drawing_area());
        if let Err(error) = drawn {
            let told =
                tell(&Raster::on(&mut pixels, SIZE).into_drawing_area(), &format!("{}: {error}", self.name));
            // Drawing letters on a white ground always succeeds.
            debug_assert!(told.is_ok());
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, SIZE.0, SIZE.1);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()?;
        Ok(bytes)
    }

    fn draw<B: Ground>(&self, root: &Area<B>) -> Drawing {
        root.fill(&WHITE)?;
        let titled = root.titled(&self.title, (FONT, 18))?;
        let (plot, legend) = titled.split_horizontally(SIZE.0 - LEGEND_WIDTH);
        let names: Vec<&str> = match &self.shape {
            Shape::Bars { categories, series } => {
                self.draw_bars(&plot, categories, series)?;
                series.iter().map(|(name, _)| name.as_str()).collect()
            }
            Shape::Lines { series, is_log_x, is_log_y } => {
                self.draw_lines(&plot, series, (*is_log_x, *is_log_y))?;
                series.iter().map(|(name, _)| name.as_str()).collect()
            }
        };
        draw_legend(&legend, &names)?;
        Ok(root.present()?)
    }

    fn draw_bars<B: Ground>(
        &self,
        plot: &Area<B>,
        categories: &[String],
        series: &[(String, Vec<f64>)],
    ) -> Drawing {
        let (low, high) = bounds(series.iter().flat_map(|(_, values)| values.iter().copied()), true)?;
        let n = categories.len();
        let mut chart = ChartBuilder::on(plot)
            .margin(8)
            .x_label_area_size(54)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..n as f64, low..high)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .disable_x_axis()
            .light_line_style(WHITE.mix(0.0))
            .y_desc(&self.y_label)
            .y_labels(8)
            .y_label_formatter(&|y| number(*y))
            .label_style((FONT, 13))
            .draw()?;
        let width = 0.8 / series.len().max(1) as f64;
        for (which, (_, values)) in series.iter().enumerate() {
            let bars = values.iter().enumerate().filter(|(_, value)| value.is_finite());
            chart.draw_series(bars.map(|(group, value)| {
                let left = group as f64 + 0.1 + width * which as f64;
                Rectangle::new(
                    [(left, 0.0_f64.max(low)), (left + width * 0.92, *value)],
                    colour(which).filled(),
                )
            }))?;
        }
        let style = TextStyle::from((FONT, 13)).pos(Pos::new(HPos::Center, VPos::Top));
        let (area, (_, bottom)) = (chart.plotting_area(), plot.dim_in_pixel());
        let n_letters = plot.dim_in_pixel().0 as usize / n.max(1) / LETTER_WIDTH;
        for (group, category) in categories.iter().enumerate() {
            let (x, _) = area.map_coordinate(&(group as f64 + 0.5, low));
            let (x0, _) = plot.get_base_pixel();
            for (line, words) in wrapped(category, n_letters).iter().enumerate() {
                plot.draw_text(words, &style, (x - x0, bottom as i32 - 52 + 14 * line as i32))?;
            }
        }
        let middle = (plot.dim_in_pixel().0 as i32 / 2, bottom as i32 - 20);
        Ok(plot.draw_text(&self.x_label, &style, middle)?)
    }

    fn draw_lines<B: Ground>(
        &self,
        plot: &Area<B>,
        series: &[(String, Vec<(f64, f64)>)],
        log: (bool, bool),
    ) -> Drawing {
        let values = |of: fn(&(f64, f64)) -> f64| series.iter().flat_map(|(_, points)| points).map(of);
        let bases = (base(log.0, values(|(x, _)| *x)), base(log.1, values(|(_, y)| *y)));
        let scale = |base: Option<f64>, value: f64| base.map_or(value, |base| value.log(base));
        let series: Vec<Vec<(f64, f64)>> = series
            .iter()
            .map(|(_, points)| points.iter().map(|(x, y)| (scale(bases.0, *x), scale(bases.1, *y))).collect())
            .collect();
        let points = || series.iter().flatten();
        let (left, right) = bounds(points().map(|(x, _)| *x), false)?;
        let (low, high) = bounds(points().map(|(_, y)| *y), !log.1)?;
        let mut chart = ChartBuilder::on(plot)
            .margin(8)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(left..right, low..high)?;
        let unscale = |base: Option<f64>, value: f64| base.map_or(value, |base| base.powf(value));
        chart
            .configure_mesh()
            .light_line_style(WHITE.mix(0.0))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_labels(if log.0 { n_powers(left, right) } else { 10 })
            .y_labels(if log.1 { n_powers(low, high) } else { 8 })
            .x_label_formatter(&|x| number(unscale(bases.0, *x)))
            .y_label_formatter(&|y| number(unscale(bases.1, *y)))
            .label_style((FONT, 13))
            .draw()?;
        for (which, points) in series.iter().enumerate() {
            let finite: Vec<(f64, f64)> =
                points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
            let style = colour(which).stroke_width(2);
            if finite.len() <= 40 {
                chart
                    .draw_series(finite.iter().map(|point| Circle::new(*point, 3, colour(which).filled())))?;
            }
            chart.draw_series(LineSeries::new(finite, style))?;
        }
        Ok(())
    }
}

/// Draws a text alone.
fn tell<B: Ground>(root: &Area<B>, text: &str) -> Drawing {
    root.fill(&WHITE)?;
    Ok(root.draw_text(text, &TextStyle::from((FONT, 13)), (20, 20))?)
}

fn colour(which: usize) -> RGBColor {
    COLOURS[which % COLOURS.len()]
}

/// Returns the base of a logarithmic axis: ten, or two if the values span less than two powers of ten.
fn base(is_log: bool, values: impl Iterator<Item = f64>) -> Option<f64> {
    let finite = values.filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) = finite.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    is_log.then_some(if high / low < 100.0 { 2.0 } else { 10.0 })
}

/// Returns the number of labels of a logarithmic axis: only powers of its base have one.
fn n_powers(low: f64, high: f64) -> usize {
    ((high.floor() - low.ceil()).max(1.0)) as usize + 1
}

/// Breaks a text into lines of `n_letters` letters, as far as words allow.
fn wrapped(text: &str, n_letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| line.len() + 1 + word.len() <= n_letters) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn draw_legend<B: Ground>(legend: &Area<B>, names: &[&str]) -> Drawing {
    let style = TextStyle::from((FONT, 13)).pos(Pos::new(HPos::Left, VPos::Center));
    for (which, name) in names.iter().enumerate() {
        let y = 20 + 20 * which as i32;
        legend.draw(&Rectangle::new([(4, y - 5), (18, y + 5)], colour(which).filled()))?;
        legend.draw_text(name, &style, (24, y))?;
    }
    Ok(())
}

/// Returns the range to draw, with a small margin; it begins at 0 if `is_from_zero`.
fn bounds(values: impl Iterator<Item = f64>, is_from_zero: bool) -> Result<(f64, f64), &'static str> {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return Err("there is nothing to draw");
    }
    let (low, high) = if is_from_zero { (low.min(0.0), high.max(0.0)) } else { (low, high) };
    let air = if high > low { (high - low) * 0.04 } else { high.abs().max(1.0) * 0.1 };
    Ok((if is_from_zero && low == 0.0 { 0.0 } else { low - air }, if high == 0.0 { 0.0 } else { high + air }))
}

/// Formats a number for an axis: three significant digits.
fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size < 1e-12 => "0".into(),
        _ if size >= 1e9 => format!("{}G", trimmed(value / 1e9)),
        _ if size >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        _ if size >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let n_digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.n_digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Cursor};

    use super::{Figure, Shape, base, n_powers, number, wrapped};

    fn figure(shape: Shape) -> Figure {
        let (x_label, y_label) = ("tasks".into(), "seconds".into());
        Figure { name: "f".into(), title: "A < B".into(), x_label, y_label, shape }
    }

    #[test]
    fn every_series_is_drawn_and_named() {
        let series = vec![("one".to_owned(), vec![1.0, 2.0]), ("two".to_owned(), vec![3.0, f64::NAN])];
        let bars = figure(Shape::Bars { categories: vec!["left".into(), "right".into()], series }).to_svg();
        for word in ["one", "two", "left", "right", "seconds", "A &lt; B", "#0072B2", "#E69F00"] {
            assert!(bars.contains(word), "{word} is missing");
        }
        // Two bars of the first series and one of the second, and their marks in the legend.
        assert_eq!(bars.matches("fill=\"#0072B2\"").count(), 3);
        assert_eq!(bars.matches("fill=\"#E69F00\"").count(), 2);
        let series = vec![("line".to_owned(), vec![(1.0, 10.0), (1000.0, 100.0)])];
        let lines = figure(Shape::Lines { series, is_log_x: true, is_log_y: true }).to_svg();
        assert!(lines.contains("<polyline") && lines.contains("line"));
    }

    /// Returns width, height, and the number of pixels of each colour.
    fn colours(png: &[u8]) -> ((u32, u32), BTreeMap<[u8; 3], usize>) {
        let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let mut colours = BTreeMap::new();
        bytes.chunks(3).for_each(|pixel| *colours.entry([pixel[0], pixel[1], pixel[2]]).or_default() += 1);
        ((info.width, info.height), colours)
    }

    #[test]
    fn pixels_have_the_colours_of_the_series_and_of_letters() {
        let series = vec![("one".to_owned(), vec![1.0, 2.0]), ("two".to_owned(), vec![3.0, 1.0])];
        let shape = Shape::Bars { categories: vec!["left".into(), "right".into()], series };
        let (size, colours) = colours(&figure(shape).to_png().unwrap());
        assert_eq!(size, (900, 440));
        for colour in [[0, 114, 178], [230, 159, 0]] {
            assert!(colours[&colour] > 5_000, "{colour:?}: {colours:?}");
        }
        // Letters are grey at their edges and black within.
        assert!(colours[&[0, 0, 0]] > 300 && colours.len() > 50, "{colours:?}");
    }

    #[test]
    fn a_figure_of_nothing_says_so() {
        let nothing = figure(Shape::Lines { series: vec![], is_log_x: false, is_log_y: false });
        assert!(nothing.to_svg().contains("nothing to draw"));
        let (_, colours) = colours(&nothing.to_png().unwrap());
        assert!(colours[&[255, 255, 255]] > 390_000 && colours.len() > 50, "{colours:?}");
    }

    #[test]
    fn long_names_of_groups_take_two_lines() {
        assert_eq!(wrapped("all-pairs, files dealt evenly", 17), ["all-pairs, files", "dealt evenly"]);
        assert_eq!(wrapped("BOT", 17), ["BOT"]);
    }

    #[test]
    fn logarithmic_axes_have_powers_of_ten_or_two() {
        let base = |values: [f64; 2]| base(true, values.into_iter());
        assert_eq!((base([2.0, 5000.0]), base([0.5, 4.0])), (Some(10.0), Some(2.0)));
        assert_eq!(n_powers(0.2, 5.3), 5);
    }

    #[test]
    fn numbers_on_axes_are_short() {
        let shown = [0.0, 0.25, 12.0, 999.5, 12_500.0, 2.33e6, -40.0].map(number);
        assert_eq!(shown, ["0", "0.25", "12", "1000", "12.5k", "2.33M", "-40"]);
    }
}
