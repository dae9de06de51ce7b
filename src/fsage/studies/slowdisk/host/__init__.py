"""What a host does with each device model: a module of the kind's name has MODEL, its class."""
