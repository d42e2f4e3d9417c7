"""bulk"""
