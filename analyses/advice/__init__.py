"""What an expert would say of a critical path: findings by an explicit list of rules, each with its evidence."""
