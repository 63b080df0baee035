//! Rates and degrees of parallelism, and the importance of a node and an application for each other (ALSTB,
//! paper 002, section 3.2, equations 3 to 8).
//!
//! NI: node importance, AI: application importance, GI: global importance, CV: standard deviation divided by
//! mean. Only summaries of rows and columns are stored and updated when their numbers change. Each importance
//! then costs O(1) at a pull, and no table of them is ever made.

/// Returns the number of tasks of an application that a node runs at a time: the number of processors that
/// are busy in spite of data transfers.
///
/// `data_share`: the part of a task's time that goes to data (the paper's gamma), from 0 to 1.
pub fn degree(data_share: f64, n_processors: u32) -> u32 {
    // 1 - 0.7 is a little above 0.3 as a float: three processors of ten are not four.
    let busy = ((1.0 - data_share) * f64::from(n_processors) - 1e-9).ceil();
    // The cast of a float beyond the range of integers gives the nearest integer.
    (busy as u32).clamp(1, n_processors.max(1))
}

/// Applications (rows) and nodes (columns), with their rates and degrees.
///
/// An index is the place in the order of addition; a removal moves the higher indices down by one.
#[derive(Clone, Debug, Default)]
pub struct Importance {
    applications: Vec<Application>,
    /// The summary of each node's degrees, over all applications.
    columns: Vec<Spread>,
}

#[derive(Clone, Debug)]
struct Application {
    /// For each node: how much faster its tasks run there than on a node of rate 1.
    rates: Vec<f64>,
    /// For each node: how many of its tasks run there at a time.
    degrees: Vec<u32>,
    row: Row,
}

/// Summary of the numbers of a row or column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spread {
    /// The mean; 0 if there is no number.
    pub mean: f64,
    /// The mean weighted with each number's part of the sum (equations 3 and 5).
    pub weighted_mean: f64,
    /// The standard deviation of the whole population.
    pub deviation: f64,
}

/// Summary of an application over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Summary of its rates.
    pub rates: Spread,
    /// Summary of the speeds of whole nodes: rate × degree.
    pub speeds: Spread,
    /// The node of the highest rate; of equal ones the lowest index.
    pub best_at: usize,
    pub best: f64,
    /// The highest rate on any other node; 0 if there is none.
    pub second: f64,
}

impl Spread {
    fn of(numbers: impl ExactSizeIterator<Item = f64> + Clone) -> Spread {
        let Some(first) = numbers.clone().next() else { return Spread::default() };
        let n = numbers.len() as f64;
        let (mut sum, mut squares, mut is_level) = (0.0, 0.0, true);
        for number in numbers.clone() {
            sum += number;
            squares += number * number;
            is_level &= number == first;
        }
        let mean = sum / n;
        // Equal numbers have no deviation, in spite of rounding.
        let variance = if is_level { 0.0 } else { numbers.map(|x| (x - mean).powi(2)).sum::<f64>() / n };
        let weighted_mean = if sum > 0.0 { squares / sum } else { 0.0 };
        Spread { mean, weighted_mean, deviation: variance.sqrt() }
    }

    /// Returns how far above the others a number of the row or column is (equations 4 and 6).
    fn importance(&self, number: f64) -> f64 {
        if self.mean > 0.0 { (number - self.weighted_mean) / self.mean } else { 0.0 }
    }

    fn variation(&self) -> f64 {
        if self.mean > 0.0 { self.deviation / self.mean } else { 0.0 }
    }
}

impl Row {
    fn of(rates: &[f64], degrees: &[u32]) -> Row {
        let speeds = rates.iter().zip(degrees).map(|(rate, degree)| rate * f64::from(*degree));
        let (speeds, rates_spread) = (Spread::of(speeds), Spread::of(rates.iter().copied()));
        let mut row = Row { rates: rates_spread, speeds, ..Row::default() };
        for (node, rate) in rates.iter().enumerate() {
            if *rate > row.best || node == 0 {
                (row.second, row.best, row.best_at) = (row.best, *rate, node);
            } else {
                row.second = row.second.max(*rate);
            }
        }
        row
    }
}

impl Importance {
    /// Makes the tables of these applications and nodes.
    ///
    /// `rates[i][j]`: the rate of application i on node j, finite and not negative. `degrees[i][j]`: see
    /// [`degree`]. O(applications × nodes).
    ///
    /// # Panics
    /// Rows have different lengths, or a rate is negative or not finite.
    pub fn new(rates: &[Vec<f64>], degrees: &[Vec<u32>]) -> Importance {
        assert_eq!(rates.len(), degrees.len(), "a row of rates and of degrees for each application");
        let mut importance = Importance::default();
        for (rates, degrees) in rates.iter().zip(degrees) {
            importance.push_application(rates, degrees);
        }
        importance.renew_all();
        importance
    }

    /// Returns the number of applications, including those without tasks: averages are over all of them.
    pub fn n_applications(&self) -> usize {
        self.applications.len()
    }

    /// Returns the number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.columns.len()
    }

    /// Returns the rate of an application on a node (the paper's r).
    pub fn rate(&self, application: usize, node: usize) -> f64 {
        self.applications[application].rates[node]
    }

    /// Returns how many tasks of an application a node runs at a time (the paper's D).
    pub fn degree(&self, application: usize, node: usize) -> u32 {
        self.applications[application].degrees[node]
    }

    /// Adds an application at the end, with its rate and degree on each node. The first one determines the
    /// number of nodes. O(applications × nodes).
    ///
    /// # Panics
    /// There is not one rate and one degree for each node, or a rate is negative or not finite.
    pub fn add_application(&mut self, rates: &[f64], degrees: &[u32]) {
        self.push_application(rates, degrees);
        self.renew_all();
    }

    fn push_application(&mut self, rates: &[f64], degrees: &[u32]) {
        rates.iter().for_each(check_rate);
        assert_eq!(rates.len(), degrees.len(), "one rate and one degree a node");
        if self.applications.is_empty() {
            self.columns = vec![Spread::default(); rates.len()];
        }
        assert_eq!(rates.len(), self.columns.len(), "one rate a node");
        let (rates, degrees) = (rates.to_vec(), degrees.to_vec());
        self.applications.push(Application { rates, degrees, row: Row::default() });
    }

    /// Adds a node at the end, with the rate and degree of each application. O(applications × nodes).
    ///
    /// # Panics
    /// There is not one rate and one degree for each application, or a rate is negative or not finite.
    pub fn add_node(&mut self, rates: &[f64], degrees: &[u32]) {
        rates.iter().for_each(check_rate);
        assert_eq!(rates.len(), self.applications.len(), "one rate an application");
        assert_eq!(degrees.len(), self.applications.len(), "one degree an application");
        for (application, (rate, degree)) in self.applications.iter_mut().zip(rates.iter().zip(degrees)) {
            application.rates.push(*rate);
            application.degrees.push(*degree);
        }
        self.columns.push(Spread::default());
        self.renew_all();
    }

    /// Removes an application. O(applications × nodes).
    ///
    /// # Panics
    /// There is no such application.
    pub fn remove_application(&mut self, application: usize) {
        self.applications.remove(application);
        self.renew_all();
    }

    /// Removes a node. O(applications × nodes).
    ///
    /// # Panics
    /// There is no such node.
    pub fn remove_node(&mut self, node: usize) {
        self.columns.remove(node);
        for application in &mut self.applications {
            application.rates.remove(node);
            application.degrees.remove(node);
        }
        self.renew_all();
    }

    /// Updates a rate after a measurement. O(nodes).
    ///
    /// # Panics
    /// There is no such application or node, or the rate is negative or not finite.
    pub fn set_rate(&mut self, application: usize, node: usize, rate: f64) {
        check_rate(&rate);
        self.applications[application].rates[node] = rate;
        self.renew_row(application);
    }

    /// Updates the number of tasks that run at a time. O(applications + nodes).
    ///
    /// # Panics
    /// There is no such application or node.
    pub fn set_degree(&mut self, application: usize, node: usize, degree: u32) {
        self.applications[application].degrees[node] = degree;
        self.renew_row(application);
        self.renew_column(node);
    }

    fn renew_all(&mut self) {
        (0..self.applications.len()).for_each(|application| self.renew_row(application));
        (0..self.columns.len()).for_each(|node| self.renew_column(node));
    }

    fn renew_row(&mut self, application: usize) {
        let of = &mut self.applications[application];
        of.row = Row::of(&of.rates, &of.degrees);
    }

    fn renew_column(&mut self, node: usize) {
        self.columns[node] = Spread::of(self.applications.iter().map(|of| f64::from(of.degrees[node])));
    }

    /// Returns NI, equation 4: how much better the application runs on this node than on other nodes.
    pub fn of_node(&self, application: usize, node: usize) -> f64 {
        self.row(application).rates.importance(self.rate(application, node))
    }

    /// Returns AI, equation 6: how much better this application fills the node than other applications do.
    pub fn of_application(&self, application: usize, node: usize) -> f64 {
        self.columns[node].importance(f64::from(self.degree(application, node)))
    }

    /// Returns mu, equation 7: the weight of the node's importance for the application, from 0 to 1, by the
    /// variation of rates and degrees.
    pub fn weight_of_node(&self, application: usize, node: usize) -> f64 {
        let of_rates = self.row(application).rates.variation();
        let sum = of_rates + self.columns[node].variation();
        if sum > 0.0 { of_rates / sum } else { 0.0 }
    }

    /// Returns GI, equation 8; its lambda is the mu of equation 7.
    pub fn global(&self, application: usize, node: usize) -> f64 {
        let mu = self.weight_of_node(application, node);
        mu * self.of_node(application, node) + (1.0 - mu) * self.of_application(application, node)
    }

    pub(super) fn row(&self, application: usize) -> &Row {
        &self.applications[application].row
    }
}

fn check_rate(rate: &f64) {
    assert!(rate.is_finite() && *rate >= 0.0, "a rate of {rate}");
}
