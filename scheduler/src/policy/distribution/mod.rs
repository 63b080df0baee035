//! Distribution: which share of an application's tasks is meant for which platform.
