//! Real servers, faults and checks for the tests of this workspace.
