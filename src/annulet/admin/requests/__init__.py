"""Reading requests and answering them: parameters, bodies, permissions, errors."""
