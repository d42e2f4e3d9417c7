"""broker/stomp"""
