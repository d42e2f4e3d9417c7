"""Sessions of clients: deliveries, credit, settlement and its deadlines."""
