"""The parts of Azure Resource Manager that clients and tutorials of Batch AI use."""
