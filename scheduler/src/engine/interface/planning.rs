//! The request to the planner and its answer. The manager passes them on unread: only the planner knows their
//! types.

use std::{any::Any, fmt, sync::Arc};

/// The input of the planner.
pub(in crate::engine) trait Planning: Any + fmt::Debug + Send + Sync {
    /// Computes the plan. It may take milliseconds, and may run on another thread than the engine.
    fn answer(&self) -> PlanAnswer;
}

/// A request to the planner. Two requests are equal only if one is a clone of the other.
#[derive(Clone, Debug)]
pub struct PlanRequest(Arc<dyn Planning>);

impl PlanRequest {
    pub(in crate::engine) fn new(input: impl Planning) -> PlanRequest {
        PlanRequest(Arc::new(input))
    }

    /// Computes the plan. It may take milliseconds, and may run on another thread than the engine.
    pub fn answer(&self) -> PlanAnswer {
        self.0.answer()
    }

    /// Returns the plan input if it is of type `T`.
    #[cfg(test)]
    pub(in crate::engine) fn input<T: Planning>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}

impl PartialEq for PlanRequest {
    fn eq(&self, other: &PlanRequest) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A plan. Two plans are equal only if one is a clone of the other.
#[derive(Clone)]
pub struct PlanAnswer(Arc<dyn Any + Send + Sync>);

impl PlanAnswer {
    pub(in crate::engine) fn new(plan: impl Any + Send + Sync) -> PlanAnswer {
        PlanAnswer(Arc::new(plan))
    }

    /// Returns the plan if it is of type `T`.
    pub(in crate::engine) fn plan<T: Any + Clone + Send + Sync>(self) -> Option<T> {
        self.0.downcast().ok().map(Arc::unwrap_or_clone)
    }
}

impl PartialEq for PlanAnswer {
    fn eq(&self, other: &PlanAnswer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for PlanAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlanAnswer(..)")
    }
}
