"""What clients need of Azure Resource Manager around Batch AI: what a tutorial's lines create and ask for."""
